"""Atomic files: a reader finds the old contents or the new, never half of them."""

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path | str, content: str | bytes | Callable[[Path], object]) -> None:
    """Write a file so that `path` always holds a whole one, the old or the new.

    Args:
        path: written in a folder that exists.
        content: text (UTF-8), bytes, or a function that writes to the path it is given.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        if callable(content):
            content(part)
        elif isinstance(content, bytes):
            part.write_bytes(content)
        else:
            part.write_text(content, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
