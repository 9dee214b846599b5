"""Frames that are not as they were written: none is signed, all are told, most are mended."""

import os
import shutil
import zlib
from pathlib import Path

import pytest
from PIL import Image

from datasets.frames.manifest import read_manifest
from datasets.prepare.__main__ import main as prepare_main
from datasets.prepare.checksums import CHECKSUMS, checksum_of, read_checksums
from datasets.prepare.frames_folder import FramesFolder
from datasets.prepare.lock import only_writer
from datasets.prepare.run import prepare
from datasets.verify.__main__ import main as verify_main
from tests.datasets.video_making import moving_pattern

VIDEO = "train00001.mp4"
KEPT = "train00002.mp4"


def frame_of(root: Path, video: str = VIDEO) -> Path:
    return sorted((root / "frames" / video).iterdir())[2]


def other_bytes(path: Path) -> None:
    path.write_bytes(b"other bytes")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:500])


def other_pixels(path: Path) -> None:
    Image.new("RGB", (32, 48)).save(path)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def another_picture(path: Path) -> None:
    """A whole picture of the right size in pixels and in bytes."""
    picture = Image.new("RGB", Image.open(path).size)
    size = path.stat().st_size
    picture.save(path, compress_level=9)
    data = path.read_bytes()
    gap = size - len(data) - 12
    text = gap.to_bytes(4, "big") + b"tEXt" + bytes(gap)
    chunk = text + zlib.crc32(text[4:]).to_bytes(4, "big")
    path.write_bytes(data[:33] + chunk + data[33:])
    assert path.stat().st_size == size


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.glob("frames/[!.]*/*")}


def verified(root: Path, capsys) -> tuple[int, str]:
    capsys.readouterr()
    status = verify_main(["--root", str(root), "--workers", "1"])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("damage", [other_bytes, cut, other_pixels])
def test_a_frame_of_other_size_is_extracted_again(done, capsys, damage):
    before = contents(done)
    stamp = frame_of(done, KEPT).stat().st_mtime_ns
    damage(frame_of(done))
    status, said = verified(done, capsys)
    assert status == 1
    assert f"datasets.prepare --root {done} --check" in said
    assert prepare_main(["--root", str(done), "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert f"not as they were written: 1; their videos are extracted again: {VIDEO}\n" in said
    assert contents(done) == before
    assert frame_of(done, KEPT).stat().st_mtime_ns == stamp
    assert verified(done, capsys)[0] == 0


@pytest.mark.parametrize("damage", [flipped, another_picture])
def test_other_content_of_the_same_size_is_told_by_verify_and_mended_with_check(
    done, capsys, damage
):
    before = contents(done)
    damage(frame_of(done))
    status, said = verified(done, capsys)
    assert status == 1
    assert str(frame_of(done)) in said
    assert "--check" in said
    assert prepare_main(["--root", str(done), "--workers", "1", "--check"]) == 0
    assert VIDEO in capsys.readouterr().out
    assert contents(done) == before
    assert verified(done, capsys)[0] == 0


@pytest.mark.parametrize("damage", [cut, other_pixels])
def test_damage_without_the_video_is_never_signed(done, capsys, damage):
    signed = read_manifest(done / "frames").checksum
    damage(frame_of(done))
    (done / "videos" / VIDEO).unlink()
    for _ in range(2):
        assert prepare_main(["--root", str(done), "--workers", "1"]) == 1
        said = capsys.readouterr().err
        name = frame_of(done).name
        assert f"{VIDEO} is missing and one of its frames is not as written ({name} first)" in said
        manifest = read_manifest(done / "frames")
        assert (manifest.frames_missing, manifest.complete) == (1, False)
        assert manifest.checksum != signed
        status, said = verified(done, capsys)
        assert status == 1
        assert "cut short" not in said


def test_a_video_that_gives_fewer_frames_than_are_there_replaces_none(done):
    cut(frame_of(done))
    moving_pattern(done / "videos" / VIDEO, frames=8)
    others = len(list(frame_of(done).parent.iterdir())) - 1
    manifest = prepare(done, workers=1, say=lambda _: None, progress=False)
    assert "ends at frame 8" in manifest.problems[VIDEO]
    assert manifest.frames_missing == 1
    assert len(list(frame_of(done).parent.iterdir())) == others + 1


def test_frames_of_an_older_version_are_read_before_they_are_signed(done, capsys):
    before = contents(done)
    (done / "frames" / CHECKSUMS).unlink()
    cut(frame_of(done))
    other_pixels(frame_of(done, "test00001.mp4"))
    stamp = frame_of(done, KEPT).stat().st_mtime_ns
    assert prepare_main(["--root", str(done), "--workers", "1"]) == 0
    assert f"extracted again: test00001.mp4, {VIDEO}\n" in capsys.readouterr().out
    assert contents(done) == before
    assert frame_of(done, KEPT).stat().st_mtime_ns == stamp
    assert len(read_checksums(done / "frames")) == len(before)


def test_checksums_are_those_of_the_files_and_bad_lines_are_as_good_as_none(done):
    files = {path.removeprefix("frames/"): checksum_of(d) for path, d in contents(done).items()}
    assert read_checksums(done / "frames") == files
    path = done / "frames" / CHECKSUMS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("no line\n" + "".join(lines[1:-1]) + lines[-1][:-1])
    del files[min(files)], files[max(files)]
    assert read_checksums(done / "frames") == files


def test_every_annotated_frame_is_held_against_what_was_written(done, capsys):
    said = {}
    for path in sorted((done / "frames").glob("*.mp4/*")):
        data = path.read_bytes()
        path.write_bytes(data + b"more")
        _, said[path] = verified(done, capsys)
        path.write_bytes(data)
    assert all("frames that are not as datasets.prepare wrote them (1)" in s for s in said.values())


def test_verify_says_that_an_extraction_goes_on_or_was_cut_short(root, capsys, monkeypatch):
    taken = []

    def take_two(folder, extracted, take=FramesFolder.take):
        take(folder, extracted)
        taken.append(extracted.video)
        if len(taken) == 2:
            os._exit(9)

    child = os.fork()
    if not child:
        monkeypatch.setattr(FramesFolder, "take", take_two)
        prepare(root, workers=1, say=lambda _: None, progress=False)
    os.waitpid(child, 0)
    assert len(list((root / "frames").glob("*.mp4"))) == 2
    _, said = verified(root, capsys)
    assert "extractions that are not finished (1): " in said
    assert "manifest.json tells of 0, as after a run that was cut short" in said
    assert "replaced" not in said
    assert "written by ffmpeg" in said
    with only_writer(root / "frames"):
        _, said = verified(root, capsys)
    assert "extractions that are going on (1): " in said
    assert said.endswith("; wait until datasets.prepare is done and verify again\n")


@pytest.fixture
def root(downloaded, tmp_path) -> Path:
    return shutil.copytree(downloaded, tmp_path / "root")
