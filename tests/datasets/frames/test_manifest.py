import json

import pytest

from bload.errors import InputError
from datasets.frames.manifest import MANIFEST, Manifest, file_name, read_manifest, write_manifest

SOUND = Manifest("jpeg", 90, 256, "ffmpeg 7, Pillow 13", problems={"A.mp4": "missing: x"})


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    assert read_manifest(tmp_path) is None
    write_manifest(tmp_path, SOUND)
    assert read_manifest(tmp_path) == SOUND
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_a_broken_manifest_or_one_with_impossible_values_is_refused(tmp_path):
    write_manifest(tmp_path, SOUND)
    sound = json.loads((tmp_path / MANIFEST).read_text())
    for change, reason in (
        ({"version": 2}, "its version is 2, not 1"),
        ({"format": "gif"}, "format 'gif'"),
        ({"format": "png"}, "quality 90 "),
        ({"quality": None}, "quality None "),
        ({"quality": 101}, "quality 101 "),
        ({"short_side": 0}, "short side 0 "),
    ):
        (tmp_path / MANIFEST).write_text(json.dumps(sound | change))
        with pytest.raises(InputError, match=rf"{MANIFEST} cannot be read .*{reason}"):
            read_manifest(tmp_path)
    for text in ("", "[]", "{}", '{"version": 1, "format": []}'):
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(InputError, match=rf"{MANIFEST} cannot be read .*datasets.prepare"):
            read_manifest(tmp_path)
    (tmp_path / MANIFEST).write_text(json.dumps(sound | {"of another version": 1}))
    assert read_manifest(tmp_path) == SOUND


def test_frames_are_named_after_the_annotations_with_the_suffix_of_the_format():
    assert file_name("A.b.mp4/000089.png", "png") == "A.b.mp4/000089.png"
    assert file_name("A.b.mp4/000089.png", "jpeg") == "A.b.mp4/000089.jpg"
    assert SOUND.describe() == "JPEG 90, short side 256"
    assert Manifest().describe() == "PNG, native size"
