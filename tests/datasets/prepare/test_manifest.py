import json
from pathlib import Path

import pytest

from bload.errors import InputError
from datasets.frames.manifest import (
    MANIFEST,
    Manifest,
    file_of,
    frames_checksum,
    read_manifest,
    write_manifest,
)

SOUND = Manifest("jpeg", 90, 256, "ffmpeg 7", "Pillow 13", problems={"A.mp4": "missing: x"})


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    assert read_manifest(tmp_path) is None
    write_manifest(tmp_path, SOUND)
    assert read_manifest(tmp_path) == SOUND
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def refusal(folder: Path, text: str) -> str:
    (folder / MANIFEST).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(
        InputError, match=rf"{MANIFEST} cannot be read .*datasets.prepare"
    ) as caught:
        read_manifest(folder)
    return str(caught.value)


def test_a_broken_manifest_or_one_with_impossible_values_is_refused(tmp_path):
    write_manifest(tmp_path, SOUND)
    sound = json.loads((tmp_path / MANIFEST).read_text())
    for change, reason in (
        ({"version": 2}, "its version is 2, not 1"),
        ({"format": "gif"}, "format 'gif'"),
        ({"format": "png"}, "quality 90 "),
        ({"quality": None}, "quality None "),
        ({"quality": 101}, "quality 101 "),
        ({"quality": True}, "quality True "),
        ({"short_side": 0}, "short side 0 "),
        ({"short_side": "256"}, "short side '256' "),
        ({"frames": -1}, "frames -1 "),
        ({"complete": 1}, "complete"),
        ({"problems": []}, "problems []"),
        ({"colour": 1}, "colour"),
    ):
        assert reason in refusal(tmp_path, json.dumps(sound | change))
    for text in ("", "{", "[]", "{}", '{"version": 1, "format": []}', '"x"', "\udc80"):
        assert str(tmp_path) in refusal(tmp_path, text)


def test_frames_are_named_after_the_annotations_with_the_suffix_of_the_format():
    assert file_of("A.b.mp4/000089.png", "png") == "A.b.mp4/000089.png"
    assert file_of("A.b.mp4/000089.png", "jpeg") == "A.b.mp4/000089.jpg"
    assert SOUND.stored_as() == "JPEG 90, short side 256"
    assert Manifest().stored_as() == "PNG, native size"


def test_the_checksum_covers_names_and_sizes_in_any_order():
    one = frames_checksum({"A/1.png": 3, "B/1.png": 4})
    assert one == frames_checksum({"B/1.png": 4, "A/1.png": 3})
    assert len({one, frames_checksum({"A/1.png": 3}), frames_checksum({"A/1.png": 4})}) == 3
