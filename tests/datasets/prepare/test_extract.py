"""What a run writes, tells before it starts, and refuses."""

import errno
import pickle
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE, SMALL_BOXES_FILE
from datasets.frames.manifest import MANIFEST, Manifest, file_of, frames_checksum, read_manifest
from datasets.frames.one_writer import one_writer
from datasets.frames.sizes import stored_size
from datasets.prepare import extract
from datasets.prepare.__main__ import main
from datasets.prepare.extract import encode, prepare
from datasets.prepare.folder import LOCK, FramesFolder
from tests.datasets.prepare.making import contents, leftovers, quietly, wanted, written
from tests.datasets.video_making import official_frames


def run(root: Path, *options: str) -> int:
    return main(["--root", str(root), "--workers", "1", *options])


def refusal(root: Path, capsys, *options: str) -> str:
    """What is said about a root that is refused, in one line; nothing may have been written."""
    before = written(root)
    assert run(root, *options) == 2
    assert written(root) == before
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def test_exactly_the_annotated_frames_are_written_with_the_pixels_of_the_official_command(
    prepared, tmp_path
):
    assert sorted(contents(prepared)) == wanted(prepared)
    assert leftovers(prepared) == []
    for video in sorted((prepared / "videos").iterdir()):
        official = official_frames(video, tmp_path / video.name)
        names = [name for name in wanted(prepared) if name.startswith(video.name)]
        assert len(official) > 2 * len(names) > 0
        for name in names:
            ours = np.array(Image.open(prepared / "frames" / name))
            np.testing.assert_array_equal(ours, official[int(Path(name).stem)])


def test_a_prepared_root_can_be_read_in_all_orientations(prepared):
    source = ActionGenome(prepared, "train", (48, 48))
    sizes = set()
    for video, length in enumerate(source.lengths.tolist()):
        frames_TCHW, targets = source.read(video, 0, length)
        assert frames_TCHW.shape == (length, 3, *source.canvas_hw)
        sizes |= {target.size_hw for target in targets}
    assert sizes == {(96, 144), (144, 96), (96, 96)}


def test_the_manifest_says_what_is_there(prepared):
    manifest = read_manifest(prepared / "frames")
    size_of = {file: len(data) for file, data in contents(prepared).items()}
    assert (manifest.format, manifest.quality, manifest.short_side) == ("png", None, None)
    assert manifest.decoder.startswith("ffmpeg ")
    assert manifest.encoder == f"Pillow {Image.__version__}"
    assert (manifest.complete, manifest.frames_missing, manifest.problems) == (True, 0, {})
    assert (manifest.videos, manifest.frames) == (7, len(wanted(prepared)))
    assert manifest.bytes == sum(size_of.values())
    assert manifest.checksum == frames_checksum(size_of)


def test_jpeg_and_short_side_store_what_they_say(root, capsys):
    assert run(root, "--format", "jpeg", "--quality", "80", "--short-side", "64") == 0
    manifest = read_manifest(root / "frames")
    assert (manifest.format, manifest.quality, manifest.short_side) == ("jpeg", 80, 64)
    assert sorted(contents(root)) == [file_of(name, "jpeg") for name in wanted(root)]
    for video, native_hw in (("train00000.mp4", (96, 144)), ("train00001.mp4", (144, 96))):
        for path in (root / "frames" / video).iterdir():
            with Image.open(path) as image:
                assert image.format == "JPEG"
                assert (image.height, image.width) == stored_size(native_hw, 64)
    assert "JPEG 80, short side 64" in capsys.readouterr().out


def test_png_is_exact_and_jpeg_is_near(tmp_path):
    ramp = np.add.outer(np.arange(48), np.arange(64)).astype(np.uint8)
    image = Image.fromarray(np.repeat(ramp[..., None], 3, axis=2))
    for stored_as, error in ((Manifest(), 0), (Manifest("jpeg", 95), 3)):
        (tmp_path / "image").write_bytes(encode(image, stored_as))
        found = np.array(Image.open(tmp_path / "image")).astype(int)
        assert np.abs(found - np.array(image)).max() <= error


def test_time_and_disk_are_reported_before_most_of_the_work(root, monkeypatch):
    monkeypatch.setattr(extract, "PILOT", 2)
    said: list[str] = []
    assert prepare(root, workers=1, say=said.append).complete
    assert len(said) == 2
    for number in ("47 ", "7 videos", " 0 there"):
        assert number in said[0]
    for number in ("2 videos", "other 5", "0.1 MiB"):
        assert number in said[1]


def test_what_cannot_fit_is_refused_and_what_was_measured_is_kept(root, monkeypatch):
    monkeypatch.setattr(extract, "PILOT", 2)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(extract.shutil, "disk_usage", lambda _: usage(9, 9, 1000))
    with pytest.raises(InputError, match=r"0\.1 MiB .* 0\.0 MiB free.*--format jpeg"):
        quietly(root)
    assert len({file.partition("/")[0] for file in contents(root)}) == 2
    assert read_manifest(root / "frames").videos == 2
    assert leftovers(root) == []


def test_a_full_disk_ends_the_run_in_a_sentence(root, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for owner, name in ((FramesFolder, "take"), (Path, "write_bytes")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, full)
            with pytest.raises(InputError, match=r"No space left.*make room and run"):
                quietly(root)
        assert (contents(root), leftovers(root)) == ({}, [])


def test_another_way_of_storing_than_what_is_there_is_refused(done, capsys):
    for options, asked in (
        (["--format", "jpeg"], "JPEG 95, native size"),
        (["--short-side", "64"], "PNG, short side 64"),
    ):
        error = refusal(done, capsys, *options)
        assert "stored as PNG, native size" in error
        assert asked in error


def test_frames_of_unknown_origin_are_refused(done, capsys):
    (done / "frames" / MANIFEST).unlink()
    assert "7 folders" in refusal(done, capsys)


def test_two_runs_at_once_are_refused(done, capsys):
    with one_writer(done / "frames", lock=done / LOCK):
        assert "another process is writing" in refusal(done, capsys)


def test_options_that_make_no_sense_are_refused(root, capsys):
    for options, part in (
        (["--quality", "90"], "quality 90 "),
        (["--format", "jpeg", "--quality", "0"], "quality 0 "),
        (["--format", "jpeg", "--quality", "101"], "quality 101 "),
        (["--short-side", "0"], "short side 0 "),
        (["--workers", "0"], "--workers 0 "),
    ):
        assert part in refusal(root, capsys, *options)


def test_everything_wrong_with_a_root_is_reported_at_once(tmp_path, capsys):
    assert "no is no folder" in refusal(tmp_path / "no", capsys)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "frames").write_text("a file")
    error = refusal(tmp_path, capsys, "--workers", "0")
    for part in ("--workers 0", "videos is not there", OBJECTS_FILE, PERSONS_FILE, "frames is no"):
        assert part in error


def test_broken_annotations_are_all_named_before_anything_is_written(root, capsys):
    for broken in (b"", pickle.dumps([1]), pickle.dumps({})):
        for file in (OBJECTS_FILE, PERSONS_FILE):
            (root / "annotations" / file).write_bytes(broken)
        error = refusal(root, capsys)
        assert OBJECTS_FILE in error
        assert PERSONS_FILE in error


def test_frame_names_that_cannot_be_are_all_named(root, capsys):
    path = root / "annotations" / OBJECTS_FILE
    entries_of = pickle.loads(path.read_bytes())
    first = next(iter(entries_of))
    other = first.replace(".png", ".jpg")
    for name in ("../../etc/000001.png", "A.mp4/x.png", "/000001.png", 7, other):
        entries_of[name] = entries_of[first]
    path.write_bytes(pickle.dumps(entries_of))
    error = refusal(root, capsys)
    assert "(4): '../../etc/000001.png'; 'A.mp4/x.png'; '/000001.png' and 1 more" in error
    assert f"(1): {first} and {other}" in error


def test_videos_in_another_folder_are_found_and_named(root, capsys):
    deeper = root / "videos" / "Charades_v1_480"
    (root / "videos").rename(root / "unpacked")
    (root / "videos").mkdir()
    (root / "videos" / "other.mp4").write_bytes(b"")
    assert "none of the 7 annotated videos" in refusal(root, capsys)
    (root / "unpacked").rename(deeper)
    assert str(deeper) in refusal(root, capsys)
    for video in deeper.iterdir():
        (root / "videos" / video.name).symlink_to(video)
    assert run(root) == 0


def test_the_file_without_small_boxes_is_not_needed(root, capsys):
    (root / "annotations" / SMALL_BOXES_FILE).unlink()
    assert run(root) == 0
    said = capsys.readouterr().out
    assert SMALL_BOXES_FILE in said
    assert "--small-boxes computed" in said


def test_a_second_run_does_nothing(done):
    before = written(done)
    shutil.rmtree(done / "videos")
    (done / "videos").mkdir()  # what is complete needs no video
    assert quietly(done).complete
    assert written(done) == before
