"""What the tests of extraction look at and interrupt."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import imageio_ffmpeg

from datasets.annotations.read import OBJECTS_FILE
from datasets.annotations.unpickler import read_pickle
from datasets.frames.manifest import Manifest
from datasets.prepare.extract import prepare

REPOSITORY = Path(__file__).parents[3]


def wanted(root: Path) -> list[str]:
    return sorted(read_pickle(root / "annotations" / OBJECTS_FILE))


def contents(root: Path) -> dict[str, bytes]:
    """Every picture below the frames folder."""
    found = (root / "frames").glob("[!.]*/*")
    return {str(path.relative_to(root / "frames")): path.read_bytes() for path in found}


def written(root: Path) -> dict[str, int]:
    """The time at which each of them was written."""
    return {name: (root / "frames" / name).stat().st_mtime_ns for name in contents(root)}


def leftovers(root: Path) -> list[str]:
    return [path.name for path in (root / "frames").glob(".*.partial")]


def quietly(root: Path, **options) -> Manifest:
    return prepare(root, workers=1, **options)


def slow_ffmpeg(folder: Path, before: str) -> dict[str, str]:
    """Return an environment in which decoding a video starts with the shell command `before`."""
    script = folder / "ffmpeg"
    real = imageio_ffmpeg.get_ffmpeg_exe()
    script.write_text(f'#!/bin/sh\ncase "$*" in *ppm*) {before};; esac\nexec "{real}" "$@"\n')
    script.chmod(0o755)
    return {"IMAGEIO_FFMPEG_EXE": str(script)}


def start(root: Path, env: dict[str, str], *options: str) -> subprocess.Popen:
    """Start the command in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "datasets.prepare", "--root", str(root), *options],
        cwd=REPOSITORY,
        env=os.environ | env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def processes_about(root: Path) -> list[str]:
    """The command lines on this machine that name `root`."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_text(errors="replace"))
    return [line for line in lines if str(root) in line]


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
