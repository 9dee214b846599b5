"""Extraction of missing annotated frames from videos, a video per thread."""

import io
import random
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import PIL
from PIL import Image
from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations.frame_names import frame_number, frames_by_video, sound_names, video_of
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER, read_files
from datasets.frames.manifest import MANIFEST, Manifest, read_manifest
from datasets.frames.sizes import stored_size
from datasets.machine import core_count, lock_folder
from datasets.prepare.decoder import Decoder, VideoError, decoder_version
from datasets.prepare.folder import LOCK, VIDEOS_FOLDER, FramesFolder, Wanted

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

    Returns what is there now; its `problems` include videos that are missing or not sound. Raises
    `InputError` for a root that cannot be used.
    """
    root, workers = Path(root), workers or core_count()
    wanted, manifest = _check_root(root, stored_as)
    path = root / FRAMES_FOLDER
    path.mkdir(exist_ok=True)
    with lock_folder(path, lock=root / LOCK, seconds=1):
        folder = FramesFolder(root, wanted, manifest)
        folder.clear()
        if todo := folder.to_do():
            before, now = manifest.decoder, f"{decoder_version()}, Pillow {PIL.__version__}"
            tools = dict.fromkeys([*filter(None, before.split("; ")), now])
            folder.manifest = replace(manifest, decoder="; ".join(tools))
        folder.save()
        print(
            f"{root}: {len(folder.files):,} annotated frames in {len(wanted):,} videos, "
            f"{len(folder.there):,} there already; {len(todo):,} videos to do "
            f"({manifest.stored_as()})"
        )
        try:
            _extract_all(folder, todo, workers)
        finally:
            folder.clear()
            manifest = folder.save()
    return manifest


def _check_root(root: Path, stored_as: Manifest) -> tuple[Wanted, Manifest]:
    """Return the annotated frames and the manifest to go on from; write nothing."""
    videos, frames, problems = root / VIDEOS_FOLDER, root / FRAMES_FOLDER, Problems()
    wanted = frames_by_video(sound_names(read_files(root, "keep")[0], problems))
    problems.refuse(root / "annotations", "fix or download the files again")
    before = read_manifest(frames)
    if not before and (count := sum(1 for _ in frames.glob("[!.]*/"))):
        raise InputError(f"{frames} holds {count} folders and no {MANIFEST}; move them away")
    if before and before.stored_as() != stored_as.stored_as():
        raise InputError(
            f"{frames} holds frames stored as {before.stored_as()}, not {stored_as.stored_as()}; "
            "ask for that, or give another --root (with links to its videos and annotations)"
        )
    to_do = not before or before.frames_missing
    if to_do and not any((videos / video).is_file() for video in wanted):
        raise InputError(
            f"{videos} has none of the {len(wanted):,} annotated videos; put them there, or links "
            "to them, and not into a folder below"
        )
    return wanted, before or stored_as


def _extract_all(folder: FramesFolder, todo: list[list[str]], workers: int) -> None:
    """Extract videos in random order, so that the bar soon tells how long all of them take."""
    random.Random(0).shuffle(todo)
    decoder = Decoder()
    with (
        tqdm(total=sum(map(len, todo)), unit="frame", disable=None) as bar,
        ThreadPoolExecutor(workers) as pool,  # ffmpeg, Pillow and files free the lock
    ):
        try:
            jobs = {pool.submit(extract, folder, decoder, frames): len(frames) for frames in todo}
            for job in as_completed(jobs):
                folder.take(*job.result())
                bar.update(jobs[job])
        finally:
            decoder.stop()
            pool.shutdown(cancel_futures=True)


def extract(
    folder: FramesFolder, decoder: Decoder, frames: list[str]
) -> tuple[str, dict[str, int], str | None]:
    """Write one video's `frames` to its partial folder; return what `FramesFolder.take` takes."""
    video, written = video_of(frames[0]), {}
    folder.partial(video).mkdir()
    file_of = {frame_number(frame): folder.file_of(frame) for frame in frames}
    try:
        for number, image in decoder.decode((folder.videos / video).absolute(), file_of):
            data = encode(image, folder.manifest)
            (folder.partial(video) / Path(file_of[number]).name).write_bytes(data)
            written[file_of[number]] = len(data)
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
