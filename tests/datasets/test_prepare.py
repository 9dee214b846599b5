import contextlib
import errno
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.read import OBJECTS_FILE
from datasets.annotations.unpickler import read_pickle
from datasets.frames.manifest import MANIFEST, frames_checksum, read_manifest
from datasets.frames.sizes import stored_size
from datasets.prepare import run
from datasets.prepare.__main__ import main
from datasets.prepare.checksums import checksum_of
from datasets.prepare.encoding import Encoding
from datasets.prepare.frames_folder import FramesFolder
from datasets.prepare.lock import only_writer
from datasets.prepare.run import prepare
from tests.datasets.video_making import official_frames

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def root(downloaded, tmp_path) -> Path:
    """A root of one's own with videos and annotations."""
    return shutil.copytree(downloaded, tmp_path / "root")


def wanted(root: Path) -> list[str]:
    return list(read_pickle(root / "annotations" / OBJECTS_FILE))


def files(root: Path) -> dict[str, int]:
    """Every picture below the frames folder with its time stamp."""
    found = root.joinpath("frames").glob("[!.]*/*")
    return {str(p.relative_to(root / "frames")): p.stat().st_mtime_ns for p in found}


def leftovers(root: Path) -> list[str]:
    return [path.name for path in (root / "frames").glob(".*.partial")]


def slow_ffmpeg(folder: Path, before: str) -> dict[str, str]:
    """An environment in which decoding a video starts with the shell command `before`."""
    script = folder / "ffmpeg"
    real = imageio_ffmpeg.get_ffmpeg_exe()
    script.write_text(f'#!/bin/sh\ncase "$*" in *ppm*) {before};; esac\nexec "{real}" "$@"\n')
    script.chmod(0o755)
    return {"IMAGEIO_FFMPEG_EXE": str(script)}


def start(root: Path, env: dict[str, str], *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "datasets.prepare", "--root", str(root), *options]
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=os.environ | env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def command_lines() -> str:
    """Those of all processes of this machine."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_text(errors="replace"))
    return "\n".join(lines)


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_exactly_the_annotated_frames_are_written(prepared):
    assert sorted(files(prepared)) == sorted(wanted(prepared))
    assert leftovers(prepared) == []


def test_pixels_are_those_of_the_official_command(prepared, tmp_path):
    for video in sorted((prepared / "videos").iterdir()):
        official = official_frames(video, tmp_path / video.name)
        names = [name for name in wanted(prepared) if name.startswith(video.name)]
        assert len(official) > 2 * len(names) > 0
        for name in names:
            ours = np.array(Image.open(prepared / "frames" / name))
            np.testing.assert_array_equal(ours, official[int(Path(name).stem)])


def test_a_prepared_root_can_be_read_in_both_orientations(prepared):
    source = ActionGenome(prepared, "train", (48, 48))
    sizes = set()
    for video, length in enumerate(source.lengths.tolist()):
        frames_TCHW, targets = source.read(video, 0, length)
        assert frames_TCHW.shape == (length, 3, *source.canvas_hw)
        for target in targets:
            with Image.open(prepared / "frames" / target.name) as image:
                assert (image.height, image.width) == target.size_hw
            sizes.add(target.size_hw)
    assert sizes == {(96, 144), (144, 96), (96, 96)}


def test_the_manifest_says_what_is_there(prepared):
    manifest = read_manifest(prepared / "frames")
    size_of = {file: (prepared / "frames" / file).stat().st_size for file in files(prepared)}
    assert (manifest.format, manifest.quality, manifest.short_side) == ("png", None, None)
    assert manifest.decoder.startswith("ffmpeg ")
    assert manifest.encoder == f"Pillow {Image.__version__}"
    assert manifest.complete
    assert (manifest.videos, manifest.frames) == (7, len(wanted(prepared)))
    assert manifest.bytes == sum(size_of.values())
    assert manifest.checksum == frames_checksum(size_of)
    assert (manifest.frames_missing, manifest.problems) == (0, {})


def test_jpeg_and_short_side_store_what_they_say(root, capsys):
    options = ["--format", "jpeg", "--quality", "80", "--short-side", "64", "--workers", "1"]
    assert main(["--root", str(root), *options]) == 0
    manifest = read_manifest(root / "frames")
    assert (manifest.format, manifest.quality, manifest.short_side) == ("jpeg", 80, 64)
    assert sorted(files(root)) == sorted(map(manifest.file_of, wanted(root)))
    native_of = {
        "train00000.mp4": (96, 144),
        "train00001.mp4": (144, 96),
        "train00002.mp4": (96, 96),
    }
    for video, native_hw in native_of.items():
        for path in (root / "frames" / video).iterdir():
            with Image.open(path) as image:
                assert image.format == "JPEG"
                assert (image.height, image.width) == stored_size(native_hw, 64)
    assert "JPEG 80, short side 64" in capsys.readouterr().out


def test_a_second_run_does_nothing(done):
    before = files(done)
    shutil.rmtree(done / "videos")
    (done / "videos").mkdir()  # what is complete needs no video
    assert prepare(done, workers=1, say=lambda _: None).complete
    assert files(done) == before


def test_what_a_killed_run_left_is_cleared_and_only_what_is_missing_is_done(done):
    before = files(done)
    lost, cut = sorted(before)[0], sorted(before)[-1]
    (done / "frames" / lost).unlink()
    (done / "frames" / cut).write_bytes(b"")
    half = done / "frames" / ".test00001.mp4.partial"
    half.mkdir()
    (half / "000001.png").write_bytes(b"half a picture")
    assert prepare(done, workers=1, say=lambda _: None).complete
    after = files(done)
    assert sorted(after) == sorted(before)
    assert leftovers(done) == []
    assert (done / "frames" / cut).stat().st_size > 0
    redone = {file.partition("/")[0] for file in after if after[file] != before[file]}
    assert redone == {lost.partition("/")[0], cut.partition("/")[0]}


def test_a_run_killed_at_any_time_leaves_no_half_video_and_the_next_goes_on(root, tmp_path):
    killed = start(root, slow_ffmpeg(tmp_path, "sleep 1"), "--workers", "1")
    wait_for(lambda: len(files(root)) > 0 and leftovers(root))
    killed.kill()
    killed.communicate()
    found = files(root)
    names = wanted(root)
    videos = {file.partition("/")[0] for file in found}
    assert 1 <= len(videos) < 7
    assert sorted(found) == sorted(name for name in names if name.partition("/")[0] in videos)
    assert not read_manifest(root / "frames").complete
    time.sleep(0.5)  # its worker has ended too and goes on no more
    assert files(root) == found
    assert prepare(root, workers=1, say=lambda _: None).complete
    after = files(root)
    assert sorted(after) == sorted(names)
    assert {file: after[file] for file in found} == found
    assert leftovers(root) == []


def test_ctrl_c_ends_cleanly_and_the_same_command_goes_on(root, tmp_path):
    stopped = start(root, slow_ffmpeg(tmp_path, "sleep 1"), "--workers", "2")
    wait_for(lambda: len(files(root)) > 0)
    os.killpg(stopped.pid, signal.SIGINT)
    _, errors = stopped.communicate(timeout=60)
    assert stopped.returncode == 130
    assert errors.strip().endswith("stopped; the same command goes on from here")
    assert "Traceback" not in errors
    manifest = read_manifest(root / "frames")
    assert manifest.frames == len(files(root)) < len(wanted(root))
    assert manifest.problems == {}  # a video cut off by Ctrl-C is not called corrupt
    assert leftovers(root) == []
    assert prepare(root, workers=1, say=lambda _: None).complete


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_sigterm_ends_as_ctrl_c_does_and_leaves_no_process(root, tmp_path, send):
    stopped = start(root, slow_ffmpeg(tmp_path, "sleep 1"), "--workers", "2")
    wait_for(lambda: len(files(root)) > 0)
    send(stopped.pid, signal.SIGTERM)
    _, errors = stopped.communicate(timeout=60)
    assert stopped.returncode == 143
    assert errors.strip().endswith("stopped; the same command goes on from here")
    assert "Traceback" not in errors
    assert "resource_tracker" not in errors
    assert leftovers(root) == []
    assert read_manifest(root / "frames").frames == len(files(root)) < len(wanted(root))
    wait_for(lambda: str(root) not in command_lines(), seconds=2)


def test_all_bad_videos_are_listed_and_the_rest_is_kept(root, capsys):
    videos = root / "videos"
    whole = {path.name: path.read_bytes() for path in sorted(videos.iterdir())}
    (videos / "test00000.mp4").unlink()
    (videos / "test00001.mp4").write_bytes(b"")
    (videos / "test00002.mp4").write_bytes(b"no video" * 99)
    (videos / "train00000.mp4").write_bytes(whole["train00000.mp4"][:2000])
    annotations = root / "annotations" / OBJECTS_FILE
    entries_of = read_pickle(annotations)
    entries_of["train00001.mp4/000999.png"] = []
    annotations.write_bytes(pickle.dumps(entries_of))
    assert main(["--root", str(root), "--workers", "2"]) == 1
    errors = capsys.readouterr().err
    for line in (
        "videos missing: 1, not sound: 4",
        f"test00000.mp4 is missing; put it at {videos / 'test00000.mp4'}",
        "test00001.mp4 is empty",
        "test00002.mp4 is not a video that decodes",
        "train00000.mp4 is not a video that decodes",
        "not sound (4): ",
        " and 1 more",
    ):
        assert line in errors
    manifest = read_manifest(root / "frames")
    assert (manifest.videos, manifest.videos_missing, manifest.videos_corrupt) == (2, 1, 4)
    assert len(manifest.problems) == 5
    assert manifest.frames == len(files(root))
    assert manifest.frames_missing == len(entries_of) - len(files(root))
    assert {file.partition("/")[0] for file in files(root)} == {
        "train00001.mp4",  # all frames but the one that is not
        "train00002.mp4",
        "train00003.mp4",
    }
    sound = {name: stamp for name, stamp in files(root).items() if "train00001" not in name}
    for name, content in whole.items():
        (videos / name).write_bytes(content)
    annotations.write_bytes(pickle.dumps(entries_of | {"train00001.mp4/000999.png": []}))
    assert main(["--root", str(root), "--workers", "2"]) == 1
    errors = capsys.readouterr().err
    assert "videos missing: 0, not sound: 1" in errors
    assert {name: stamp for name, stamp in files(root).items() if name in sound} == sound
    del entries_of["train00001.mp4/000999.png"]
    annotations.write_bytes(pickle.dumps(entries_of))
    assert main(["--root", str(root), "--workers", "1"]) == 0
    assert read_manifest(root / "frames").problems == {}


def test_a_damaged_video_stays_listed_until_it_is_mended(root, capsys):
    video = root / "videos" / "train00001.mp4"
    whole = video.read_bytes()
    middle = len(whole) // 3
    video.write_bytes(whole[:middle] + bytes(400) + whole[middle + 400 :])
    for _ in range(2):
        assert main(["--root", str(root), "--workers", "1"]) == 0  # each annotated frame is there
        assert (
            "damaged, with all annotated frames (1): train00001.mp4 is " in capsys.readouterr().err
        )
        manifest = prepare(root, workers=1, say=lambda _: None)
        assert list(manifest.problems) == ["train00001.mp4"]
        assert "is damaged (" in manifest.problems["train00001.mp4"]
        assert (manifest.frames_missing, manifest.complete) == (0, True)
    video.write_bytes(whole)
    assert prepare(root, workers=1, say=lambda _: None).complete


@pytest.mark.parametrize("options", [["--format", "jpeg"], ["--short-side", "64"]])
def test_another_encoding_than_what_is_there_is_refused(done, capsys, options):
    before = files(done)
    assert main(["--root", str(done), *options]) == 2
    error = capsys.readouterr().err
    assert "holds frames stored as PNG, native size, and " in error
    assert "ask for what is there, remove the folder, or give another --root" in error
    assert files(done) == before


def test_the_encoding_is_known_although_the_first_run_was_killed(root, tmp_path):
    killed = start(root, slow_ffmpeg(tmp_path, "sleep 9"), "--workers", "1", "--format", "jpeg")
    wait_for((root / "frames" / MANIFEST).exists)
    killed.kill()
    killed.communicate()
    with pytest.raises(InputError, match="stored as JPEG 95, native size, and PNG, native size"):
        prepare(root)


def test_frames_of_unknown_origin_are_refused(done):
    (done / "frames" / MANIFEST).unlink()
    with pytest.raises(InputError, match=rf"holds 7 entries .* and no {MANIFEST}"):
        prepare(done)


def test_two_runs_at_once_are_refused(done):
    with (
        only_writer(done / "frames"),
        pytest.raises(InputError, match="another process is writing"),
    ):
        prepare(done)


def test_time_and_disk_are_told_before_most_of_the_work(root, monkeypatch):
    monkeypatch.setattr(run, "_PILOT", 2)
    said: list[str] = []
    assert prepare(root, workers=1, say=said.append).complete
    assert len(said) == 2
    assert "47 annotated frames in 7 videos, 0 there already; 7 videos to do" in said[0]
    assert "measured on 2 videos: the other 5 take about " in said[1]
    assert " with --workers 1, and 0.1 MiB (" in said[1]


def test_what_cannot_fit_is_refused_and_what_was_measured_is_kept(root, monkeypatch):
    monkeypatch.setattr(run, "_PILOT", 2)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(run.shutil, "disk_usage", lambda _: usage(9, 9, 1000))
    with pytest.raises(InputError, match=r"needs about 0\.1 MiB more and the disk has 0\.0 MiB"):
        prepare(root, workers=1, say=lambda _: None)
    kept = {file.partition("/")[0] for file in files(root)}
    assert len(kept) == 2
    assert read_manifest(root / "frames").videos == 2


def test_a_full_disk_ends_the_run_in_a_sentence(root, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FramesFolder, "take", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left.*; make room and run"):
        prepare(root, workers=1, say=lambda _: None)


def test_a_worker_that_is_killed_ends_the_run_in_a_sentence(root, tmp_path, monkeypatch):
    name, script = slow_ffmpeg(tmp_path, "kill -9 $PPID").popitem()
    monkeypatch.setenv(name, script)
    with pytest.raises(InputError, match=r"a worker process was killed.* fewer --workers"):
        prepare(root, workers=1, say=lambda _: None)


def test_everything_wrong_with_a_root_is_told_at_once(tmp_path, capsys):
    (tmp_path / "frames").write_text("a file")
    assert main(["--root", str(tmp_path), "--workers", "0"]) == 2
    error = capsys.readouterr().err
    for part in ("--workers 0", "videos is not there", f"lacks {OBJECTS_FILE} and", "no folder"):
        assert part in error
    assert error.count("\n") == 1
    assert main(["--root", str(tmp_path / "no")]) == 2
    assert "no is not a folder; give the root" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../etc/000001.png", "A.mp4/../000001.png", "/000001.png", 7])
def test_annotations_cannot_name_files_outside_the_root(root, name):
    (root / "annotations" / OBJECTS_FILE).write_bytes(pickle.dumps({name: []}))
    with pytest.raises(InputError, match=f"{OBJECTS_FILE}: frame names not of the form"):
        prepare(root)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--quality", "90"], "PNG has no quality"),
        (["--format", "jpeg", "--quality", "0"], "--quality 0 is not between 1 and 100"),
        (["--format", "jpeg", "--quality", "101"], "--quality 101 is not"),
        (["--short-side", "0"], "--short-side 0 is not"),
    ],
)
def test_options_that_make_no_sense_are_refused(root, capsys, options, message):
    assert main(["--root", str(root), *options]) == 2
    assert message in capsys.readouterr().err


def test_png_is_exact_and_jpeg_is_near(tmp_path):
    ramp = np.add.outer(np.arange(48), np.arange(64)).astype(np.uint8)
    image = Image.fromarray(np.repeat(ramp[..., None], 3, axis=2))
    for encoding, error in ((Encoding(), 0), (Encoding("jpeg", 95), 3)):
        written = encoding.save(image, tmp_path / "image")
        assert written == checksum_of((tmp_path / "image").read_bytes())
        found = np.array(Image.open(tmp_path / "image")).astype(int)
        assert np.abs(found - np.array(image)).max() <= error


def test_the_manifest_is_plain_json(prepared):
    said = json.loads((prepared / "frames" / MANIFEST).read_text())
    assert (said["version"], said["format"], said["short_side"]) == (1, "png", None)
