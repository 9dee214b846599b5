"""Files written whole, folders with one writer, commands: for all packages above `bload`."""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from filelock import FileLock, Timeout

from bload import InputError


class QuietStream:
    """A text stream that falls silent when its terminal or pipe is gone; this ends no run."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream or open(os.devnull, "w")  # noqa: SIM115

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with self._quietly():
            encoding = self.stream.encoding or "utf-8"
            self.stream.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        with self._quietly():
            self.stream.flush()

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)


@contextmanager
def exit_on_input_error() -> Iterator[None]:
    """End the process with status 2 on bad input, which the first rank reports in one sentence."""
    try:
        with redirect_stdout(QuietStream(sys.stdout)):  # type: ignore[type-var]
            yield
            sys.stdout.flush()
    except InputError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


@contextmanager
def reading(path: Path | str, remedy: str) -> Iterator[None]:
    """Raise an `InputError` that names the file for whatever its contents raise in the body."""
    try:
        yield
    except Exception as error:  # wrong contents raise nearly anything
        kind, words = type(error).__name__, " ".join(str(error).split()).split(". ")[0][:200]
        if isinstance(error, InputError) or "Memory" in kind:
            raise
        details = words if kind == "BadZipFile" else f"{kind}: {words}"
        raise InputError(f"{path} cannot be read ({details}); {remedy}") from error


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
        previous: where the old file is kept, in the same folder; None replaces it. Between the two
            renames there is only this one.

    Raises:
        InputError: `path` is no plain file, or cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a rename would take a device away
        raise InputError(f"{path} is a folder, a pipe or a device; give a file")
    partial_path = path.with_name(f"{path.name}.part")
    try:
        with partial_path.open("wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content if isinstance(content, bytes) else content.encode())
            file.flush()
            os.fsync(file.fileno())
        if previous and path.exists():
            os.replace(path, previous)
        os.replace(partial_path, path)
        folder = os.open(path.parent, os.O_RDONLY)
        with suppress(OSError):  # not every file system can do that with a folder
            os.fsync(folder)
        os.close(folder)
    except (OSError, RuntimeError) as error:  # torch's own, from the system's, on a full disk
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        raise InputError(f"{path} cannot be written ({cause}); give another folder") from error
    finally:
        with suppress(OSError):
            partial_path.unlink()


@contextmanager
def lock_folder(
    folder: Path,
    *,
    lock: Path | None = None,
    seconds: float = -1,
    remedy: str = "give another folder",
) -> Iterator[None]:
    """Keep other processes from writing `folder`; the system ends the lock if this one is killed.

    Args:
        lock: the lock file; default: one beside the folder.
        seconds: time to wait for another process; -1: no limit.
        remedy: end of an error's sentence.

    Raises:
        InputError: another process holds the lock, or there is no place for it.
    """
    lock = lock or folder.absolute().parent / f".{folder.absolute().name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("a+b") as file:  # filelock would wait for ever without a file, or flock
            fcntl.flock(file, fcntl.LOCK_UN)
        handle = FileLock(lock)
        if seconds < 0:
            with suppress(Timeout):
                handle.acquire(timeout=1)
            if not handle.is_locked and os.environ.get("RANK", "0") == "0":
                print(f"waiting for another process, which writes {folder}", flush=True)
        if not handle.is_locked:
            handle.acquire(timeout=seconds)
    except Timeout:
        raise InputError(
            f"another process is writing {folder}; wait for it, stop it, or {remedy}"
        ) from None
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error}); {remedy}") from error
    try:
        yield
    finally:
        handle.release()
