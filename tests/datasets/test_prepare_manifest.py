import json
from dataclasses import replace

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
from datasets.frames.sizes import stored_size

SOUND = Manifest("jpeg", 90, 256, "ffmpeg 7", "Pillow 13", problems={"A.mp4": "is missing"})


@pytest.mark.parametrize(
    ("size_hw", "short_side", "stored_hw"),
    [
        ((480, 270), None, (480, 270)),
        ((480, 270), 270, (480, 270)),  # as large already
        ((480, 270), 300, (480, 270)),  # never enlarged
        ((480, 270), 256, (455, 256)),  # 455.1
        ((270, 480), 256, (256, 455)),
        ((5, 2), 1, (3, 1)),  # 2.5: a half goes up
        ((100_000, 3), 1, (33_333, 1)),
    ],
)
def test_the_short_side_is_stored_and_the_other_follows(size_hw, short_side, stored_hw):
    assert stored_size(size_hw, short_side) == stored_hw


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    assert read_manifest(tmp_path) is None
    write_manifest(tmp_path, SOUND)
    assert read_manifest(tmp_path) == SOUND
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "its version is 2, not 1"),
        ({"format": "gif"}, "format 'gif' is not png or jpeg"),
        ({"short_side": 0}, "short_side 0 is not a number of pixels"),
        ({"short_side": "256"}, "short_side '256' is not"),
        ({"quality": None}, "quality None does not go with format jpeg"),
        ({"frames": -1}, "frames -1 is not a number"),
        ({"colour": 1}, "nothing here knows colour"),
    ],
)
def test_a_manifest_that_says_what_it_cannot_is_refused_by_name(tmp_path, change, reason):
    write_manifest(tmp_path, SOUND)
    path = tmp_path / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=rf"{MANIFEST} cannot be read \({reason}.*; remove "):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1}', '"x"', "\udc80"])
def test_a_broken_manifest_is_refused_by_name(tmp_path, text):
    (tmp_path / MANIFEST).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=rf"{MANIFEST} cannot be read"):
        read_manifest(tmp_path)


def test_frames_are_named_after_the_annotations_with_the_suffix_of_the_format():
    assert file_of("A.b.mp4/000089.png", "png") == "A.b.mp4/000089.png"
    assert SOUND.file_of("A.b.mp4/000089.png") == "A.b.mp4/000089.jpg"
    assert replace(SOUND, format="png", quality=None).file_of("A/1.png") == "A/1.png"


def test_the_checksum_sees_names_and_sizes_in_any_order():
    one = frames_checksum({"A/1.png": 3, "B/1.png": 4})
    assert one == frames_checksum({"B/1.png": 4, "A/1.png": 3})
    assert len({one, frames_checksum({"A/1.png": 3}), frames_checksum({"A/1.png": 4})}) == 3
