"""A whole run: check, measure, write, and say what is there."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations.frame_names import video_of
from datasets.annotations.problems import SHOWN
from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames.manifest import Manifest
from datasets.frames.sizes import gib
from datasets.prepare.downloads import check_downloads
from datasets.prepare.encoding import AS_PUBLISHED, Encoding
from datasets.prepare.estimate import Estimate, check_disk, duration, pilot
from datasets.prepare.frames_folder import FramesFolder
from datasets.prepare.lock import only_writer
from datasets.prepare.pool import Pool, open_pool

_PILOT = 8  # videos measured before the estimate is told, or two a worker


def prepare(
    root: Path | str,
    encoding: Encoding = AS_PUBLISHED,
    *,
    workers: int | None = None,
    check: bool = False,
    progress: bool = True,
    say: Callable[[str], None] = print,
) -> Manifest:
    """Write the annotated frames of all videos of `root` that are not there yet.

    `workers` processes (default: one a core) take a video each. A frame of another size in bytes
    than was written, with `check` also one of other content, is not there: its video is extracted
    again. Videos that are missing or not sound are in `problems` of the manifest. Raises
    `InputError` for a root that cannot be used, other frames in the folder or a disk that is too
    small.
    """
    root = Path(root)
    workers = os.cpu_count() or 1 if workers is None else workers
    wanted = check_downloads(root, workers, say)
    try:
        (root / FRAMES_FOLDER).mkdir(exist_ok=True)
        with only_writer(root / FRAMES_FOLDER):
            folder = FramesFolder(
                root, wanted, encoding, read_all=check, workers=workers, progress=progress
            )
            todo = folder.to_do()
            _tell_altered(folder, todo, say)
            folder.write_checksums()
            folder.write_manifest()
            frames = sum(map(len, wanted.values()))
            say(
                f"{root}: {frames:,} annotated frames in {len(wanted):,} videos, "
                f"{folder.manifest.frames:,} there already; {len(todo):,} videos to do ({encoding})"
            )
            try:
                if todo:
                    with open_pool(root, encoding, min(workers, len(todo))) as pool:
                        _extract_all(pool, folder, todo, min(workers, len(todo)), progress, say)
            finally:
                folder.clear_partials()
                folder.write_checksums()
                manifest = folder.write_manifest()
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise InputError(
            f"{error.filename or root / FRAMES_FOLDER} cannot be written ({error.strerror}); "
            f"{'make room' if full else 'check the disk'} and run the same command again"
        ) from error
    return manifest


def _tell_altered(folder: FramesFolder, todo: list[list[str]], say: Callable[[str], None]) -> None:
    """Name the videos that are extracted again because their frames are not as written."""
    again = [video_of(frames[0]) for frames in todo if video_of(frames[0]) in folder.altered]
    if again:
        altered = sum(len(folder.altered[video]) for video in again)
        more = f" and {len(again) - SHOWN:,} more" if len(again) > SHOWN else ""
        say(
            f"frames that are not as they were written: {altered:,}; their videos are extracted "
            f"again: {', '.join(again[:SHOWN])}{more}"
        )


def _extract_all(
    pool: Pool,
    folder: FramesFolder,
    todo: list[list[str]],
    workers: int,
    progress: bool,
    say: Callable[[str], None],
) -> None:
    """Extract a few videos, tell what the rest will take, refuse what cannot fit, extract it."""
    frames_of = {video_of(frames[0]): frames for frames in todo}
    estimate = Estimate()
    first, rest = pilot(todo, max(_PILOT, 2 * workers))
    with tqdm(total=sum(map(len, todo)), unit="frame", disable=None if progress else True) as bar:
        for videos in (first, rest):
            for extracted in pool.extract(videos):
                frames = frames_of[extracted.video]
                folder.take(extracted)
                estimate.add(frames, extracted)
                bar.update(len(frames))
                bar.set_postfix_str(
                    f"{gib(estimate.bytes)} of about {gib(estimate.bytes_of(todo))}"
                )
            if videos is first and rest:
                needed, free = estimate.bytes_of(rest), shutil.disk_usage(folder.path).free
                seconds = estimate.seconds_of(rest, workers)
                bar.clear()
                say(
                    f"measured on {len(first)} videos: the other {len(rest):,} take about "
                    f"{duration(seconds)} with --workers {workers}, and {gib(needed)} "
                    f"({gib(free)} free)"
                )
                check_disk(needed, free, folder.path)
