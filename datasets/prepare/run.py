"""A whole run: check, measure, write, and say what is there."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations import FRAMES_FOLDER, OBJECTS_FILE
from datasets.frame_names import video_of
from datasets.prepare.encoding import Encoding
from datasets.prepare.estimate import Estimate, check_disk, duration, gib, pilot
from datasets.prepare.frames_folder import VIDEOS_FOLDER, FramesFolder, only_writer
from datasets.prepare.manifest import Manifest
from datasets.prepare.pool import Pool, open_pool
from datasets.prepare.wanted import annotated_frames

_PILOT = 8  # videos measured before the estimate is told, or two a worker


def prepare(
    root: Path | str,
    encoding: Encoding = Encoding(),  # noqa: B008 (frozen)
    *,
    workers: int | None = None,
    progress: bool = True,
    say: Callable[[str], None] = print,
) -> Manifest:
    """Write the annotated frames of all videos of `root` that are not there yet.

    `workers` processes (default: one a core) take a video each. Videos that are missing or not
    sound are in `problems` of the manifest; all others are complete. Raises `InputError` for a
    root that cannot be used, other frames in the folder or a disk that is too small.
    """
    root = Path(root)
    workers = os.cpu_count() or 1 if workers is None else workers
    _check(root, workers)
    wanted = annotated_frames(root)
    try:
        with only_writer(root):
            folder = FramesFolder(root, wanted, encoding)
            todo = folder.to_do()
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
                manifest = folder.write_manifest()
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise InputError(
            f"{error.filename or root / FRAMES_FOLDER} cannot be written ({error.strerror}); "
            f"{'make room' if full else 'check the disk'} and run the same command again"
        ) from error
    return manifest


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


def _check(root: Path, workers: int) -> None:
    """Refuse a root that cannot be used, with everything that is wrong with it at once."""
    wrong = [f"--workers {workers} is not 1 or more"] if workers < 1 else []
    if not root.is_dir():
        wrong.append(f"{root} is not a folder; give the root that has annotations/ and videos/")
    else:
        if not (root / VIDEOS_FOLDER).is_dir():
            wrong.append(f"{root / VIDEOS_FOLDER} is not there; put the Charades videos into it")
        if not (root / "annotations" / OBJECTS_FILE).is_file():
            wrong.append(
                f"{root / 'annotations' / OBJECTS_FILE} is not there; put Action Genome's "
                "annotations into that folder"
            )
        try:
            (root / FRAMES_FOLDER).mkdir(exist_ok=True)
            writable = os.access(root / FRAMES_FOLDER, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            wrong.append(f"{root / FRAMES_FOLDER} is no folder that can be written; mend that")
    if wrong:
        raise InputError("; and ".join(wrong))
