"""What has to be there before the first video is extracted, all of it told at once."""

import pickle
import shutil
from pathlib import Path

import pytest

from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE, SMALL_BOXES_FILE
from datasets.prepare.__main__ import main


@pytest.fixture
def root(downloaded, tmp_path) -> Path:
    return shutil.copytree(downloaded, tmp_path / "root")


def refusal(root: Path, capsys) -> str:
    """What is said about a root that is refused; nothing may have been written."""
    assert main(["--root", str(root), "--workers", "1"]) == 2
    assert not (root / "frames").exists()
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def test_videos_a_folder_too_deep_are_found_and_named(root, capsys):
    deeper = root / "videos" / "Charades_v1_480"
    (root / "videos").rename(root / "unpacked")
    (root / "videos").mkdir()
    (root / "unpacked").rename(deeper)
    error = refusal(root, capsys)
    assert f"{root / 'videos'} has none of the 7 annotated videos" in error
    assert f"they are in {deeper}: move them up, or put links to them" in error
    for video in deeper.iterdir():
        (root / "videos" / video.name).symlink_to(video)
    assert main(["--root", str(root), "--workers", "1"]) == 0


def test_a_folder_without_any_of_the_videos_is_refused(root, capsys):
    shutil.rmtree(root / "videos")
    (root / "videos").mkdir()
    (root / "videos" / "other.mp4").write_bytes(b"")
    assert "has none of the 7 annotated videos (test00000.mp4 is one)" in refusal(root, capsys)


def test_the_list_of_missing_videos_is_short_and_the_manifest_has_all(root, capsys):
    for video in sorted((root / "videos").iterdir())[:5]:
        video.unlink()
    assert main(["--root", str(root), "--workers", "1"]) == 1
    error = capsys.readouterr().err
    assert "missing (5): test00000.mp4 is missing; " in error
    assert " and 2 more" in error
    assert error.count("is missing; put it at") == 3
    manifest = root / "frames" / "manifest.json"
    assert f"({manifest} lists them all)" in error
    assert manifest.read_text().count("is missing; put it at") == 5


@pytest.mark.parametrize("broken", [None, b"", pickle.dumps([1]), pickle.dumps({})])
def test_annotations_that_training_needs_are_asked_for_together(root, capsys, broken):
    for file in (OBJECTS_FILE, PERSONS_FILE):
        path = root / "annotations" / file
        path.unlink() if broken is None else path.write_bytes(broken)
    error = refusal(root, capsys)
    assert OBJECTS_FILE in error
    assert PERSONS_FILE in error


def test_the_file_without_small_boxes_can_be_done_without(root, capsys):
    (root / "annotations" / SMALL_BOXES_FILE).unlink()
    assert main(["--root", str(root), "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert f"{SMALL_BOXES_FILE} is missing; " in said
    assert "--small-boxes computed of datasets.verify" in said


def test_all_frame_names_that_cannot_be_are_told_together(root, capsys):
    path = root / "annotations" / OBJECTS_FILE
    entries_of = pickle.loads(path.read_bytes())
    first = next(iter(entries_of))
    other = first.replace(".png", ".jpg")
    for name in ("../000001.png", "A.mp4/x.png", other):
        entries_of[name] = entries_of[first]
    path.write_bytes(pickle.dumps(entries_of))
    error = refusal(root, capsys)
    assert "not of the form VIDEO/NUMBER.png (2): '../000001.png'; 'A.mp4/x.png'" in error
    assert f"frames under two names (1): {first} and {other}" in error
