"""Atomic files: a reader finds the old contents or the new, never half of them."""

import os
from collections.abc import Callable
from pathlib import Path

from bload.errors import InputError


def write_whole(
    path: Path | str,
    content: str | bytes | Callable[[Path], object],
    previous: Path | None = None,
) -> None:
    """Write a file so that `path` always holds a whole one, the old or the new.

    It is on the disk, not only in the system's memory, when this returns.

    Args:
        path: in a folder that exists.
        content: text (UTF-8), bytes, or a function that writes to the path it is given.
        previous: where the old file is kept, in the same folder; None replaces it.

    Raises:
        InputError: `path` is no plain file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a device, which a rename would take away
        raise InputError(f"{path} is a folder or a device; give a file")
    part = path.with_name(f"{path.name}.part")
    try:
        if callable(content):
            content(part)
        elif isinstance(content, bytes):
            part.write_bytes(content)
        else:
            part.write_text(content, encoding="utf-8")
        _sync(part)
        if previous and path.exists():
            os.replace(path, previous)
        os.replace(part, path)
        _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
