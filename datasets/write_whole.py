"""Atomic files: a reader finds the old contents or the new, never half of them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bload.errors import InputError


def plain_file(path: Path | str) -> Path:
    """Return the path of a file or of none; raise `InputError` if something else is there."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is a folder, a pipe or a device; give a file")
    return path


@contextmanager
def reading(path: Path | str, remedy: str) -> Iterator[None]:
    """Raise an `InputError` that names the file for whatever its contents raise in the body."""
    try:
        yield
    except Exception as error:  # wrong contents raise nearly anything
        if isinstance(error, InputError) or "Memory" in type(error).__name__:
            raise
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise InputError(f"{path} cannot be read ({what}); {remedy}") from error


def new_file(path: Path) -> BinaryIO:
    """Open a new file for writing; an old one, or a link, is removed and not followed."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def write_whole(
    path: Path | str,
    content: str | bytes | Callable[[BinaryIO], object],
    previous: Path | None = None,
) -> None:
    """Write a file so that `path` always holds a whole one, the old or the new.

    It is on the disk, not only in the system's memory, when this returns.

    Args:
        path: in a folder that exists.
        content: text (UTF-8), bytes, or a function that writes to the open file it is given.
        previous: where the old file is kept, in the same folder; None replaces it.

    Raises:
        InputError: `path` is no plain file.
    """
    path = plain_file(path)  # a rename would take a device away
    part = path.with_name(f"{path.name}.part")
    try:
        with new_file(part) as file:
            if callable(content):
                content(file)
            else:
                file.write(content if isinstance(content, bytes) else content.encode())
            file.flush()
            os.fsync(file.fileno())
        if previous and path.exists():
            os.replace(path, previous)
        os.replace(part, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        part.unlink(missing_ok=True)
