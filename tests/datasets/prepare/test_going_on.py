"""Runs that are stopped, videos that are not sound, frames that are lost or damaged."""

import os
import pickle
import shutil
import signal
from pathlib import Path

from datasets.annotations.read import OBJECTS_FILE
from datasets.frames.manifest import MANIFEST, read_manifest
from datasets.prepare.__main__ import main as prepare_main
from datasets.prepare.extract import prepare
from tests.datasets.prepare.making import (
    contents,
    leftovers,
    processes_about,
    start,
    videos_of,
    wait_for,
    wanted,
    written,
)
from tests.datasets.video_making import moving_pattern

VIDEO, KEPT = "train00001.mp4", "train00002.mp4"


def frame_of(root: Path, video: str = VIDEO) -> Path:
    return sorted((root / "frames" / video).iterdir())[2]


def run(root: Path, capsys, *options: str) -> tuple[int, str]:
    status = prepare_main(["--root", str(root), "--workers", "1", *options])
    return status, "".join(capsys.readouterr())


def verified(root: Path, capsys) -> tuple[int, str]:
    return run(root, capsys, "--check")


def test_a_run_killed_at_any_time_leaves_no_half_video_and_the_next_goes_on(root):
    gate = root.parent / "gate"  # a slow machine must not finish before it is stopped
    shut = f'case "$*" in *train00003*) until [ -e "{gate}" ]; do sleep 0.1; done;; esac'
    killed = start(root, shut, "--workers", "1")
    wait_for(lambda: contents(root) and leftovers(root))
    killed.kill()
    gate.touch()
    killed.communicate()
    found = written(root)
    assert 1 <= len(videos_of(found)) < 7
    assert sorted(found) == [name for name in wanted(root) if videos_of([name]) <= videos_of(found)]
    assert read_manifest(root / "frames").frames_missing
    wait_for(lambda: not processes_about(root))
    assert not prepare(root).frames_missing
    assert sorted(contents(root)) == wanted(root)
    assert found.items() <= written(root).items()
    assert leftovers(root) == []


def test_ctrl_c_ends_a_run_at_once_and_leaves_nothing_half_done(root):
    stopped = start(root, 'case "$*" in *train00003*) exec sleep 900;; esac', "--workers", "2")
    wait_for(lambda: len(videos_of(contents(root))) == 6)
    os.killpg(stopped.pid, signal.SIGINT)
    _, errors = stopped.communicate(timeout=600)
    assert stopped.returncode == 130
    assert errors.strip().endswith("stopped; the same command goes on from here")
    assert "Traceback" not in errors
    assert (processes_about(root), leftovers(root)) == ([], [])
    manifest = read_manifest(root / "frames")
    assert manifest.frames == len(contents(root)) < len(wanted(root))
    assert manifest.problems == {}  # a video cut off by Ctrl-C is not called corrupt
    shutil.rmtree(root / "frames" / KEPT)
    assert not prepare(root).frames_missing


def test_only_what_is_missing_is_done_and_leftovers_are_cleared(done):
    before = written(done)
    lost, cut = min(before), max(before)
    (done / "frames" / lost).unlink()
    (done / "frames" / cut).write_bytes(b"")
    (done / "frames" / ".test00001.mp4.partial").mkdir()
    (done / "frames" / ".test00001.mp4.partial" / "000001.png").write_bytes(b"half a picture")
    assert not prepare(done).frames_missing
    after = written(done)
    assert sorted(after) == sorted(before)
    assert leftovers(done) == []
    assert videos_of(f for f in after if after[f] != before[f]) == videos_of([lost, cut])
    shutil.rmtree(done / "videos")
    (done / "videos").mkdir()  # what is complete needs no video
    assert not prepare(done).frames_missing
    assert written(done) == after


def test_all_bad_videos_are_listed_and_the_rest_is_kept(root, capsys):
    videos, annotations = root / "videos", root / "annotations" / OBJECTS_FILE
    whole = {path.name: path.read_bytes() for path in sorted(videos.iterdir())}
    (videos / "test00000.mp4").unlink()
    (videos / "test00001.mp4").write_bytes(b"")
    (videos / "train00000.mp4").write_bytes(whole["train00000.mp4"][:2000])
    entries_of = pickle.loads(annotations.read_bytes())
    annotations.write_bytes(pickle.dumps(entries_of | {"train00001.mp4/000999.png": []}))
    status, said = run(root, capsys)
    assert status == 1
    assert f"missing (1): test00000.mp4: put it at {videos / 'test00000.mp4'}" in said
    assert "not decodable (2): " in said
    assert "too short (1): train00001.mp4: " in said
    assert str(root / "frames" / MANIFEST) in said
    manifest, kept = read_manifest(root / "frames"), written(root)
    assert (manifest.videos, len(manifest.problems), manifest.frames) == (3, 4, len(kept))
    assert manifest.frames_missing == len(entries_of) + 1 - len(kept)
    assert "train00001.mp4" in videos_of(kept)
    for name, content in whole.items():
        (videos / name).write_bytes(content)
    assert run(root, capsys)[0] == 1
    assert list(read_manifest(root / "frames").problems) == ["train00001.mp4"]
    sound = {file: stamp for file, stamp in kept.items() if "train00001" not in file}
    assert sound.items() <= written(root).items()
    annotations.write_bytes(pickle.dumps(entries_of))
    assert run(root, capsys)[0] == 0
    assert read_manifest(root / "frames").problems == {}


def test_a_damaged_video_stays_listed_until_it_is_fixed(root, capsys):
    video = root / "videos" / VIDEO
    whole = video.read_bytes()
    middle = len(whole) // 3
    video.write_bytes(whole[:middle] + bytes(400) + whole[middle + 400 :])
    for _ in range(2):
        status, said = run(root, capsys)
        assert status == 0  # each annotated frame is there
        assert f"damaged (1): {VIDEO}: " in said
        manifest = read_manifest(root / "frames")
        assert (list(manifest.problems), manifest.frames_missing) == ([VIDEO], 0)
    video.write_bytes(whole)
    assert prepare(root).problems == {}


def test_a_damaged_frame_is_reported_and_extracted_again_once_it_is_removed(done, capsys):
    before, path = contents(done), frame_of(done)
    path.write_bytes(path.read_bytes()[:500])
    status, said = verified(done, capsys)
    assert (status, str(path) in said) == (1, True)
    path.unlink()
    assert f"datasets.prepare --root {done}\n" in verified(done, capsys)[1]
    assert run(done, capsys)[0] == 0
    assert contents(done) == before
    assert verified(done, capsys)[0] == 0


def test_a_video_that_gives_fewer_frames_than_are_there_replaces_none(done):
    frame_of(done).unlink()
    moving_pattern(done / "videos" / VIDEO, frames=8)
    before = sorted(frame_of(done).parent.iterdir())
    manifest = prepare(done)
    assert "ends at frame 8" in manifest.problems[VIDEO]
    assert manifest.frames_missing == 1
    assert sorted(frame_of(done).parent.iterdir()) == before
    for path in before[:-1]:
        path.unlink()
    manifest = prepare(done)  # three frames are more than one, though another one is lost
    assert manifest.frames == len(contents(done)) == len(wanted(done)) - (1 + len(before)) + 3
