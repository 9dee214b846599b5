"""Extraction of missing annotated frames from videos, a video per thread."""

import io
import os
import random
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import PIL
from PIL import Image
from tqdm import tqdm

from bload import InputError
from datasets.annotations.frame_names import frame_number, frames_by_video, valid_names
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER, read_files
from datasets.files import lock_folder
from datasets.frames.manifest import Manifest, read_manifest
from datasets.frames.sizes import stored_size
from datasets.prepare.decoder import Decoder, VideoError, decoder_version
from datasets.prepare.folder import LOCK, VIDEOS_FOLDER, FramesFolder

PNG_LEVEL = 3  # 4 % larger files than zlib's default, written about three times as fast
AS_PUBLISHED = Manifest()


def prepare(
    root: Path | str,
    stored_as: Manifest = AS_PUBLISHED,
    workers: int | None = None,
) -> Manifest:
    """Write the missing annotated frames of all videos of `root`, and print the progress.

    Args:
        stored_as: format, quality and short side of the files; default: PNG of native size.
        workers: videos at a time, each with its own ffmpeg; None: one per core.

    Returns the frames that exist now; its `problems` include videos that are missing or damaged.
    Raises `InputError` for a root that cannot be used.
    """
    root, workers = Path(root), workers or os.cpu_count() or 1
    annotated, manifest = _check_root(root, stored_as)
    path = root / FRAMES_FOLDER
    path.mkdir(exist_ok=True)
    with lock_folder(path, lock=root / LOCK, seconds=1):
        folder = FramesFolder(root, annotated, manifest)
        folder.clear()
        if pending := folder.pending_videos():
            tools = f"{decoder_version()}, Pillow {PIL.__version__}"
            decoders = dict.fromkeys([*filter(None, manifest.decoder.split("; ")), tools])
            folder.manifest = replace(manifest, decoder="; ".join(decoders))
        manifest = folder.save()
        print(
            f"{root}: {manifest.frames + manifest.frames_missing:,} annotated frames in "
            f"{len(annotated):,} videos, {manifest.frames:,} there already; {len(pending):,} "
            f"videos to do ({manifest.describe()})"
        )
        try:
            _extract_all(folder, pending, workers)
        finally:
            folder.clear()
            manifest = folder.save()
    return manifest


def _check_root(root: Path, stored_as: Manifest) -> tuple[dict[str, list[str]], Manifest]:
    """Return the annotated frames by video and the manifest to go on from; write nothing."""
    videos, frames, problems = root / VIDEOS_FOLDER, root / FRAMES_FOLDER, Problems()
    annotated = frames_by_video(valid_names(read_files(root, "keep")[0], problems))
    problems.raise_if_any(root / "annotations", "fix or download the files again")
    old_manifest = read_manifest(frames)
    if not old_manifest and any(frames.glob("[!.]*/")):
        old_manifest = AS_PUBLISHED  # an official dump
    if old_manifest and old_manifest.describe() != stored_as.describe():
        raise InputError(
            f"{frames} holds frames stored as {old_manifest.describe()}, not "
            f"{stored_as.describe()}; ask for that, or give another --root (with links to its "
            "videos and annotations)"
        )
    is_incomplete = not old_manifest or old_manifest.frames_missing
    if is_incomplete and not any((videos / video).is_file() for video in annotated):
        raise InputError(
            f"{videos} has none of the {len(annotated):,} annotated videos; put them there, or "
            "links to them, and not into a folder below"
        )
    return annotated, old_manifest or stored_as


def _extract_all(folder: FramesFolder, videos: list[str], workers: int) -> None:
    """Extract videos in random order, so that the bar soon shows how long all of them take."""
    random.Random(0).shuffle(videos)
    decoder = Decoder()
    frames = sum(len(folder.files[video]) for video in videos)
    with (
        tqdm(total=frames, unit="frame", disable=None) as bar,
        ThreadPoolExecutor(workers) as pool,  # ffmpeg, Pillow and files free the lock
    ):
        try:
            jobs = [pool.submit(extract, folder, decoder, video) for video in videos]
            for job in as_completed(jobs):
                video, written, problem = job.result()
                folder.finish_video(video, written, problem)
                bar.update(len(folder.files[video]))
        finally:
            decoder.stop()
            pool.shutdown(cancel_futures=True)


def extract(
    folder: FramesFolder, decoder: Decoder, video: str
) -> tuple[str, dict[str, int], str | None]:
    """Write the frames of a video to its partial folder; return what `FramesFolder.take` takes."""
    files, written = {frame_number(file): file for file in folder.files[video]}, {}
    folder.partial_folder(video).mkdir()
    try:
        for number, image in decoder.decode((folder.videos / video).absolute(), files):
            data = encode(image, folder.manifest)
            (folder.partial_folder(video) / Path(files[number]).name).write_bytes(data)
            written[files[number]] = len(data)
    except VideoError as error:
        return video, written, str(error)
    return video, written, None


def encode(image: Image.Image, stored_as: Manifest) -> bytes:
    """Return the file of a frame, resized (bilinear, antialiased) where a short side is set."""
    height, width = stored_size((image.height, image.width), stored_as.short_side)
    image, file = image.resize((width, height), Image.Resampling.BILINEAR), io.BytesIO()
    if stored_as.format == "png":
        image.save(file, "PNG", compress_level=PNG_LEVEL)
    else:
        image.save(file, "JPEG", quality=stored_as.quality)
    return file.getvalue()
