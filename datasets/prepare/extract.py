"""From videos to annotated frames: what is missing is extracted, a video per thread."""

import io
import os
import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import PIL
from PIL import Image
from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations import read
from datasets.annotations.frame_names import frame_number, frames_by_video, sound_names, video_of
from datasets.annotations.problems import Problems
from datasets.frames.manifest import MANIFEST, Checksum, Manifest, checksum_of, read_manifest
from datasets.frames.one_writer import one_writer
from datasets.frames.sizes import gib, stored_size
from datasets.prepare.decoder import Decoder, VideoError, decoder_version
from datasets.prepare.folder import LOCK, VIDEOS_FOLDER, FramesFolder, Wanted

PNG_LEVEL = 3  # 4 % larger files than zlib's default, written about three times as fast
PILOT = 8  # videos per worker after which time and disk are estimated
CORES = os.cpu_count() or 1
AS_PUBLISHED = Manifest()


def prepare(
    root: Path | str,
    stored_as: Manifest = AS_PUBLISHED,
    workers: int = CORES,
    check: bool = False,
) -> Manifest:
    """Write the annotated frames of all videos of `root` that are not there yet, and print how far.

    Args:
        stored_as: format, quality and short side of the files; default: PNG of native size.
        workers: videos at a time, each with an ffmpeg of its own; default: one per core.
        check: read every frame that is there. A frame that has another size in bytes than was
            written, or with `check` other content, is missing: its video is extracted again.

    Returns what is there now; videos that are missing or not sound are among its `problems`.
    Raises `InputError` for a root that cannot be used and a disk that is full or too small.
    """
    root = Path(root)
    wanted, manifest = check_root(root, stored_as, workers)
    path = root / read.FRAMES_FOLDER
    try:
        path.mkdir(exist_ok=True)
        with one_writer(path, lock=root / LOCK, seconds=1):
            folder = FramesFolder(root, wanted, manifest, readers=workers if check else 0)
            folder.clear()
            if todo := folder.to_do():
                decoder = _also(manifest.decoder, decoder_version())
                encoder = _also(manifest.encoder, f"Pillow {PIL.__version__}")
                folder.manifest = replace(manifest, decoder=decoder, encoder=encoder)
            folder.save()
            if folder.altered:
                count, first = len(folder.altered), min(folder.altered)
                print(f"not as written, to be extracted again: {count:,} frames ({first} first)")
            print(
                f"{root}: {len(folder.files):,} annotated frames in {len(wanted):,} videos, "
                f"{len(folder.sound):,} there already; {len(todo):,} videos to do "
                f"({manifest.stored_as()})"
            )
            try:
                _extract_all(folder, todo, workers)
            finally:
                folder.clear()
                manifest = folder.save()
    except OSError as error:
        raise InputError(
            f"{error.filename or path} cannot be written ({error.strerror}); check the disk, make "
            "room and run the same command again"
        ) from error
    return manifest


def check_root(root: Path, stored_as: Manifest, workers: int) -> tuple[Wanted, Manifest]:
    """Return the annotated frames and the manifest to go on from; write nothing.

    Raises `InputError` with everything that is wrong at once: downloads that are not all there,
    and frames stored in another or an unknown way.
    """
    if not root.is_dir():
        raise InputError(f"{root} is no folder; give the root that has annotations/ and videos/")
    wrong = [f"--workers {workers} is not 1 or more"] if workers < 1 else []
    videos, frames, wanted = root / VIDEOS_FOLDER, root / read.FRAMES_FOLDER, {}
    before = read_manifest(frames) if frames.is_dir() else None
    try:
        entries_of, _ = read.read_pickles(*read.annotation_files(root, "keep"))
        problems = Problems()
        wanted = dict(sorted(frames_by_video(sound_names(entries_of, problems)).items()))
        problems.refuse(root / "annotations" / read.OBJECTS_FILE, "fix or download the file again")
    except InputError as error:
        wrong.append(str(error))
    if not before and (count := sum(1 for _ in frames.glob("[!.]*/"))):
        wrong.append(f"{frames} holds {count} folders and no {MANIFEST}; move them away")
    elif before and before.stored_as() != stored_as.stored_as():
        wrong.append(
            f"{frames} holds frames stored as {before.stored_as()}, not {stored_as.stored_as()}; "
            "ask for that, or give another --root (with links to its videos and annotations)"
        )
    if not videos.is_dir():
        wrong.append(f"{videos} is not there; put the Charades videos into it")
    elif not (before and before.complete) and not any((videos / each).exists() for each in wanted):
        deeper = {str(path.parent) for path in videos.glob("*/*") if path.name in wanted}
        wrong.append(
            f"{videos} has none of the {len(wanted):,} annotated videos; put them there or link "
            f"to them{': they are in ' if deeper else ''}{', '.join(deeper)}"
        )
    if not os.access(frames if frames.exists() else root, os.W_OK) or frames.is_file():
        wrong.append(f"{frames} is no folder that can be written; fix that")
    if wrong:
        raise InputError("; and ".join(wrong))
    if not (small := root / "annotations" / read.SMALL_BOXES_FILE).is_file():
        without = "datasets.verify --small-boxes computed, train.py dataset.small_boxes=computed"
        print(f"{small} is missing; put it there, or do without it: {without}")
    return wanted, before or stored_as


def _also(before: str, now: str) -> str:
    """Return all versions that wrote frames, as one text."""
    return "; ".join(dict.fromkeys([*filter(None, before.split("; ")), now]))


def _extract_all(folder: FramesFolder, todo: list[list[str]], workers: int) -> None:
    """Extract videos in random order; after the first few, estimate what the rest takes."""
    random.Random(0).shuffle(todo)
    decoder, began, written, done = Decoder(), time.perf_counter(), 0, []
    with (
        tqdm(total=sum(map(len, todo)), unit="frame", disable=None) as bar,
        ThreadPoolExecutor(workers) as pool,  # ffmpeg, Pillow and files free the lock
    ):
        try:
            jobs = {pool.submit(_extract, folder, decoder, frames): frames for frames in todo}
            for job in as_completed(jobs):
                folder.take(*job.result())
                bar.update(len(jobs[job]))
                written += sum(checksum.bytes for checksum in job.result()[1].values())
                done.append(jobs[job])
                if len(done) == PILOT * workers < len(todo):
                    seconds = time.perf_counter() - began
                    tqdm.write(_estimate(folder.path, done, todo, seconds, written))
        finally:
            decoder.stop()
            pool.shutdown(cancel_futures=True)


def _estimate(path: Path, done: list, todo: list, seconds: float, written: int) -> str:
    """Return time and disk for the rest of `todo`; refuse four fifths of more than is free."""
    to_decode = [sum(frame_number(frames[-1]) for frames in part) for part in (done, todo)]
    to_keep = [sum(map(len, part)) for part in (done, todo)]
    seconds *= to_decode[1] / to_decode[0] - 1
    needed, free = int(written * (to_keep[1] / to_keep[0] - 1)), shutil.disk_usage(path).free
    if 0.8 * needed > free:
        raise InputError(
            f"{path} needs about {gib(needed)} more and the disk has {gib(free)} free; make room "
            "and run the same command again, or remove the folder and choose --format jpeg or "
            "--short-side"
        )
    return (
        f"measured on {len(done)} videos: the other {len(todo) - len(done):,} take about "
        f"{tqdm.format_interval(seconds)} (h:mm:ss) and {gib(needed)} ({gib(free)} free)"
    )


def _extract(
    folder: FramesFolder, decoder: Decoder, frames: list[str]
) -> tuple[str, dict[str, Checksum], str | None]:
    """Write one video's `frames` to its partial folder; return what `FramesFolder.take` takes."""
    assert folder.manifest is not None
    video, checksums = video_of(frames[0]), {}
    folder.partial(video).mkdir()
    file_of = {frame_number(frame): folder.file_of(frame) for frame in frames}
    try:
        for number, image in decoder.decode((folder.videos / video).absolute(), file_of):
            data = encode(image, folder.manifest)
            (folder.partial(video) / Path(file_of[number]).name).write_bytes(data)
            checksums[file_of[number]] = checksum_of(data)
    except VideoError as error:
        return video, checksums, str(error)
    return video, checksums, None


def encode(image: Image.Image, stored_as: Manifest) -> bytes:
    """Return the file of a frame, resized (bilinear, antialiased) where a short side is set."""
    height, width = stored_size((image.height, image.width), stored_as.short_side)
    file = io.BytesIO()
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    if stored_as.format == "png":
        image.save(file, "PNG", compress_level=PNG_LEVEL)
    else:
        image.save(file, "JPEG", quality=stored_as.quality)
    return file.getvalue()
