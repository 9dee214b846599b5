"""Roots that the tests of extraction look at and interrupt."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import imageio_ffmpeg

from datasets.annotations.read import OBJECTS_FILE
from datasets.annotations.unpickler import read_pickle

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


def videos_of(files) -> set[str]:
    return {file.partition("/")[0] for file in files}


def leftovers(root: Path) -> list[str]:
    return [path.name for path in (root / "frames").glob(".*.partial")]


def start(root: Path, before: str, *options: str) -> subprocess.Popen:
    """Start the command; the shell command `before` runs before every ffmpeg that decodes."""
    script, real = root.parent / "ffmpeg", imageio_ffmpeg.get_ffmpeg_exe()
    script.write_text(f'#!/bin/sh\ncase "$*" in *ppm*) {before};; esac\nexec "{real}" "$@"\n')
    script.chmod(0o755)
    return subprocess.Popen(
        [sys.executable, "-m", "datasets.prepare", "--root", str(root), *options],
        cwd=REPOSITORY,
        env=os.environ | {"IMAGEIO_FFMPEG_EXE": str(script)},
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


def wait_for(condition) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
