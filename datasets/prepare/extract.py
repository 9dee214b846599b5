"""Extraction of the annotated frames that do not exist, by one run of ffmpeg per video.

Frames have the numbers and the pixels of ``ffmpeg -i VIDEO %06d.png``, which made the official
ones: frames repeated or dropped for a constant rate, pictures turned as the file says. Only the
annotated ones are encoded. So ffmpeg decodes its own first output (``-dec``, version 7 or later),
in which frames have their final numbers, and selects there. The program comes with imageio-ffmpeg;
the variable IMAGEIO_FFMPEG_EXE names another one.
"""

import os
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import imageio_ffmpeg
from tqdm import tqdm

from bload import InputError
from datasets.annotations.frame_names import frame_number, frames_by_video, valid_names
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER, read_files
from datasets.files import lock_folder

VIDEOS_FOLDER = "videos"
LOCK = ".prepare.lock"


def prepare(root: Path | str, workers: int | None = None) -> tuple[int, Problems]:
    """Write the annotated frames of all videos of `root` that do not exist; show the progress.

    Args:
        workers: videos at a time, each with its own ffmpeg; None: one per core.

    Returns:
        the number of annotated frames that do not exist now, and the problems of videos.

    Raises:
        InputError: the root cannot be used, or another process fills it.
    """
    root = Path(root)
    videos, frames, problems = root / VIDEOS_FOLDER, root / FRAMES_FOLDER, Problems()
    names = valid_names(read_files(root, "keep")[0], problems)
    problems.raise_if_any(root / "annotations", "fix or download the files again")
    with lock_folder(frames, lock=frames / LOCK, seconds=1):
        for part in frames.glob(".*.part"):  # of a run that was killed
            shutil.rmtree(part)
        pending = list(frames_by_video(missing_frames(frames, names)).items())
        if pending and not any((videos / video).exists() for video, _ in pending):
            raise InputError(
                f"{videos} has none of the {len(pending):,} videos of missing frames; put them "
                "there, or links to them, and not into a folder below"
            )
        print(f"{root}: {len(names):,} annotated frames, {len(pending):,} videos to extract")
        random.Random(0).shuffle(pending)  # so that the bar soon shows how long all of them take
        with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
            jobs = [pool.submit(extract, videos / video, frames, names) for video, names in pending]
            try:
                for (video, _), job in zip(pending, tqdm(jobs, unit="video"), strict=True):
                    if problem := job.result():
                        kind, details = problem
                        problems.add(f"videos that are {kind}", f"{video}: {details}")
            finally:
                pool.shutdown(cancel_futures=True)
        return len(missing_frames(frames, names)), problems


def missing_frames(frames: Path, names: Sequence[str]) -> list[str]:
    """Return the frames among `names` that do not exist or are empty files."""
    paths = ((name, frames / name) for name in names)
    return [name for name, path in paths if not path.exists() or not path.stat().st_size]


def extract(video: Path, frames: Path, names: Sequence[str]) -> tuple[str, str] | None:
    """Write some frames of a video, in order of time, to the folder `frames`.

    They get their place once ffmpeg is done with the video; other files stay as they are. Returns
    the kind and details of a problem. Frames that a damaged or short video yields are written.
    """
    if not video.exists():
        return "missing", f"put it at {video}"
    part = frames / f".{video.name}.part"
    part.mkdir()
    try:
        log = run_ffmpeg(video, list(map(frame_number, names)), part)
        written = sorted(part.glob("*.png"))
        (frames / video.name).mkdir(exist_ok=True)
        for path, name in zip(written, names, strict=False):
            os.replace(path, frames / name)
    finally:
        shutil.rmtree(part)
    lines = (re.sub(r"\[[^\]]*\] ?", "", line).strip() for line in log.splitlines())
    complaint = next((line[:120] for line in lines if line), "")  # without addresses
    if not written:
        return "not decodable", complaint
    if len(written) < len(names):
        return "too short", f"{len(names) - len(written)} frames missing, {names[len(written)]} on"
    return ("damaged; remove their folders to try again", complaint) if complaint else None


def run_ffmpeg(video: Path, numbers: Sequence[int], folder: Path) -> str:
    """Write frames of a video, counted from 1, as 000001.png and so on; return its complaints.

    With several kinds of pictures in a file, the first one is its video. The file ends early if
    there are not as many frames.
    """
    terms, program = [f"eq(n,{number - 1})" for number in numbers], imageio_ffmpeg.get_ffmpeg_exe()
    while len(terms) > 1:  # a tree of sums: ffmpeg takes no chain of more than 100
        terms = [f"({'+'.join(terms[i : i + 2])})" for i in range(0, len(terms), 2)]
    command = [program, "-loglevel", "error", "-threads", "1", "-i", str(video.absolute())]
    command += ["-map", "0:v:0", "-frames:v", str(max(numbers)), "-fps_mode", "cfr"]
    command += ["-c:v", "wrapped_avframe", "-f", "null", "-"]
    command += ["-dec", "0:0", "-filter_complex", f"[dec:0]select='{terms[0]}'[out]"]
    command += ["-map", "[out]", "-fps_mode", "passthrough"]
    command += ["-atomic_writing", "1", "%06d.png"]  # whole files alone have this name
    pipe, devnull = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.run(command, cwd=folder, stdin=devnull, stderr=pipe, check=False)
    return process.stderr.decode(errors="replace")
