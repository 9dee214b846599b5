"""A run writes, reports before it starts, and refuses."""

import pickle
from pathlib import Path

import numpy as np
from PIL import Image

from datasets.annotations.read import OBJECTS_FILE
from datasets.files import lock_folder
from datasets.frames.manifest import MANIFEST, Manifest, file_name, read_manifest
from datasets.prepare.__main__ import main
from datasets.prepare.folder import LOCK
from tests.datasets.prepare.making import contents, leftovers, wanted, written
from tests.datasets.video_making import official_frames


def run(root: Path, *options: str) -> int:
    return main(["--root", str(root), "--workers", "1", *options])


def refusal(root: Path, capsys, *options: str) -> str:
    """The sentence about a root that is refused, in one line; nothing may have been written."""
    before = written(root)
    assert run(root, *options) == 2
    assert written(root) == before
    error = capsys.readouterr().err
    assert (error[:7], error.count("\n")) == ("error: ", 1)
    return error


def test_exactly_the_annotated_frames_are_written_as_the_official_command_does(prepared, tmp_path):
    assert sorted(contents(prepared)) == wanted(prepared)
    assert leftovers(prepared) == []
    for video in sorted((prepared / "videos").iterdir()):
        official = official_frames(video, tmp_path / video.name)
        names = [name for name in wanted(prepared) if name.startswith(video.name)]
        assert len(official) > 2 * len(names) > 0
        for name in names:
            ours = np.array(Image.open(prepared / "frames" / name))
            np.testing.assert_array_equal(ours, official[int(Path(name).stem)])


def test_the_manifest_says_what_is_there(prepared):
    manifest = read_manifest(prepared / "frames")
    assert manifest.decoder.startswith("ffmpeg ")
    assert manifest == Manifest(
        decoder=manifest.decoder,
        videos=7,
        frames=len(wanted(prepared)),
        bytes=sum(map(len, contents(prepared).values())),
    )


def test_jpeg_and_short_side_store_what_they_say(root, capsys):
    assert run(root, "--format", "jpeg", "--quality", "80", "--short-side", "64") == 0
    manifest = read_manifest(root / "frames")
    assert (manifest.format, manifest.quality, manifest.short_side) == ("jpeg", 80, 64)
    assert sorted(contents(root)) == [file_name(name, "jpeg") for name in wanted(root)]
    for video, stored_wh in (("train00000.mp4", (96, 64)), ("train00001.mp4", (64, 96))):
        for path in (root / "frames" / video).iterdir():
            with Image.open(path) as image:
                assert (image.format, image.size) == ("JPEG", stored_wh)
    assert "JPEG 80, short side 64" in capsys.readouterr().out


def test_frames_stored_in_another_or_an_unknown_way_or_by_another_run_are_refused(done, capsys):
    with lock_folder(done / "frames", lock=done / LOCK):
        assert "another process is writing" in refusal(done, capsys)
    error = refusal(done, capsys, "--format", "jpeg")
    assert "PNG, native size, not JPEG 95, native size" in error
    assert "PNG, short side 64" in refusal(done, capsys, "--short-side", "64")
    (done / "frames" / MANIFEST).unlink()
    assert "PNG, native size, not JPEG 95, native size" in refusal(done, capsys, "--format", "jpeg")


def test_an_official_dump_is_taken_as_it_is_and_completed(done, capsys):
    before = {path: path.read_bytes() for path in done.glob("frames/*/*.png")}
    (done / "frames" / MANIFEST).unlink()
    next(iter(before)).unlink()
    assert run(done) == 0
    assert "1 videos to do (PNG, native size)" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in done.glob("frames/*/*.png")} == before


def test_what_cannot_be_prepared_is_refused(root, tmp_path, capsys):
    assert f"{tmp_path / 'no'} holds no Action Genome" in refusal(tmp_path / "no", capsys)
    for options, part in (
        (["--quality", "90"], "quality 90 "),
        (["--format", "jpeg", "--quality", "0"], "quality 0 "),
        (["--short-side", "0"], "short side 0 "),
    ):
        assert part in refusal(root, capsys, *options)
    (root / "frames").write_text("a file")
    assert f"{root / 'frames'}" in refusal(root, capsys)
    (root / "frames").unlink()
    (root / "videos").rename(root / "unpacked")
    assert "none of the 7 annotated videos" in refusal(root, capsys)
    path = root / "annotations" / OBJECTS_FILE
    entries_of = pickle.loads(path.read_bytes())
    path.write_bytes(b"")
    assert OBJECTS_FILE in refusal(root, capsys)
    path.write_bytes(pickle.dumps(entries_of | {"../../etc/000001.png": [], "A.mp4/x.png": []}))
    assert "(2): '../../etc/000001.png'; 'A.mp4/x.png'" in refusal(root, capsys)
