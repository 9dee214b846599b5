"""Frames are those of the official command; what is missing is done, what is there stays."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bload import InputError
from datasets.annotations.read import OBJECTS_FILE
from datasets.annotations.unpickler import read_pickle
from datasets.files import lock_folder
from datasets.prepare.__main__ import main
from datasets.prepare.extract import LOCK, extract, prepare
from tests.datasets.annotations.making import edit
from tests.datasets.video_making import ffmpeg, moving_pattern, official_frames

VIDEO = "train00001.mp4"


def wanted(root: Path) -> list[str]:
    return sorted(read_pickle(root / "annotations" / OBJECTS_FILE))


def written(root: Path) -> dict[str, int]:
    """Every file below the frames folder but the lock, and the time at which it was written."""
    files = (root / "frames").glob("*/*")
    return {str(path.relative_to(root / "frames")): path.stat().st_mtime_ns for path in files}


def make_kinds(folder: Path) -> None:
    """Make videos whose frames the official command repeats, drops, puts in front or turns."""
    plain = moving_pattern(folder / "constant.mp4", "-g", "8", "-bf", "2")
    gaps = "select='not(eq(mod(n,3),1))*not(between(n,12,20))'"
    moving_pattern(folder / "variable.mp4", "-vf", gaps, "-fps_mode", "vfr", frames=30)
    jitter = "setpts='PTS+0.03/TB*mod(N*7,5)/5+gt(N,20)*0.2/TB'"
    scale = ("-video_track_timescale", "90000")
    moving_pattern(folder / "jittered.mp4", "-vf", jitter, "-fps_mode", "vfr", *scale)
    tone = ("-f", "lavfi", "-i", "sine=duration=2")
    ffmpeg("-itsoffset", "0.7", "-i", plain, *tone, "-c:v", "copy", folder / "late.mp4")
    ffmpeg("-display_rotation", "90", "-i", plain, "-c", "copy", folder / "turned.mp4")
    moving_pattern(folder / "full_range.mp4", "-color_range", "pc", size="98x66")


def test_frames_are_those_of_the_official_command(tmp_path):
    (tmp_path / "videos").mkdir()
    make_kinds(tmp_path / "videos")
    for video in (tmp_path / "videos").iterdir():
        official = official_frames(video, tmp_path / "official" / video.stem)
        numbers = [1, 3, 4, 17, len(official)]
        names = [f"{video.name}/{number:06d}.png" for number in numbers]
        assert extract(video, tmp_path, names) is None
        for name, number in zip(names, numbers, strict=True):
            picture = np.array(Image.open(tmp_path / name))
            np.testing.assert_array_equal(picture, official[number], name)
        beyond = f"{video.name}/{len(official) + 1:06d}.png"
        assert extract(video, tmp_path, [names[0], beyond])[0] == "too short"


def test_hundreds_of_frames_of_one_video_are_extracted(tmp_path):
    video = moving_pattern(tmp_path / "long.mp4", frames=400)
    names = [f"long.mp4/{number:06d}.png" for number in range(1, 401)]
    (tmp_path / "frames").mkdir()
    assert extract(video, tmp_path / "frames", names) is None
    assert len([*(tmp_path / "frames" / "long.mp4").iterdir()]) == 400


def test_only_what_is_missing_or_empty_is_done_and_what_a_killed_run_left_is_cleared(done):
    before = written(done)
    assert sorted(before) == wanted(done)
    lost, empty = min(before), max(before)
    (done / "frames" / lost).unlink()
    (done / "frames" / empty).write_bytes(b"")
    left = done / "frames" / ".test00001.mp4.part"
    left.mkdir()
    (left / "000001.png").write_bytes(b"half a picture")
    assert main(["--root", str(done)]) == 0
    after = written(done)
    assert sorted(after) == wanted(done)
    assert {name for name in after if after[name] != before[name]} == {lost, empty}
    shutil.rmtree(done / "videos")  # what is complete needs no video
    assert main(["--root", str(done)]) == 0
    assert written(done) == after


def test_bad_videos_are_listed_and_every_frame_that_they_give_is_kept(root, capsys):
    videos = {path.name: path.read_bytes() for path in sorted((root / "videos").iterdir())}
    (root / "videos" / "test00000.mp4").unlink()
    (root / "videos" / "test00001.mp4").write_bytes(b"<html>404 Not Found</html>")
    edit(root, lambda value: value.update({f"{VIDEO}/000999.png": []}))
    assert main(["--root", str(root), "--workers", "1"]) == 1
    said = capsys.readouterr().err
    assert f"missing (1): test00000.mp4: put it at {root / 'videos' / 'test00000.mp4'}" in said
    assert "not decodable (1): test00001.mp4: " in said
    assert f"too short (1): {VIDEO}: 1 frames missing, {VIDEO}/000999.png on" in said
    kept = written(root)
    bad = ("test00000", "test00001", f"{VIDEO}/000999")
    assert sorted(kept) == [name for name in wanted(root) if not name.startswith(bad)]
    for name, content in videos.items():
        (root / "videos" / name).write_bytes(content)
    edit(root, lambda value: value.pop(f"{VIDEO}/000999.png"))
    missing, problems = prepare(root)
    assert (missing, len(problems)) == (0, 0)
    assert kept.items() <= written(root).items()


def test_what_cannot_be_prepared_is_refused(root, tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path / 'no'} holds no Action Genome"):
        prepare(tmp_path / "no")
    (root / "frames").mkdir()
    with lock_folder(root, lock=root / "frames" / LOCK), pytest.raises(InputError, match="another"):
        prepare(root)
    (root / "videos").rename(root / "unpacked")
    with pytest.raises(InputError, match="none of the 7 videos"):
        prepare(root)
    edit(root, lambda value: value.update({"../../etc/000001.png": []}))
    with pytest.raises(InputError, match=r"\(1\): '../../etc/000001.png'"):
        prepare(root)
