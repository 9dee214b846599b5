"""What may happen on hostile input: a result or one sentence, in time, inside the tests' folder."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bload.errors import InputError

SECONDS = 600
"""Limit of one case, on a machine that does other things too; most take milliseconds."""
CODE = {"os.exec", "os.fork", "os.posix_spawn", "os.system", "subprocess.Popen"}
CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate"}


Refusal = Callable[..., Any]
_seen: list[tuple[str, tuple]] | None = None


def _listen(event: str, arguments: tuple) -> None:
    if _seen is not None:
        _seen.append((event, arguments))


sys.addaudithook(_listen)  # which can never be removed, but costs little


def watched(folder: Path) -> Refusal:
    """Make a function that calls another one and checks what it did; it may write in `folder`."""

    def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        with recorded() as events, _limited():
            try:
                result = function(*arguments, **options)
            except InputError as error:
                result, sentence = None, str(error)
                assert sentence.isprintable(), sentence
                assert 10 < len(sentence) < 10_000, sentence
        wrong = [each for each in events if not _is_allowed(*each, folder)]
        assert not wrong, wrong
        return result

    return call


@contextlib.contextmanager
def recorded() -> Iterator[list[tuple[str, tuple]]]:
    """Audit events of the body, each with its arguments."""
    global _seen
    _seen = events = []
    try:
        yield events
    finally:
        _seen = None


def _is_allowed(event: str, arguments: tuple, folder: Path) -> bool:
    if event in CODE:
        return False
    if event not in CHANGES and event != "open":
        return True
    if event == "open":
        path, mode, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) if flags else 0
        if isinstance(path, int) or not (writes or set(mode or "") & set("wax+")):
            return True
    paths = [os.fsdecode(each) for each in arguments[:2] if isinstance(each, str | bytes)]
    if event == "open":
        paths = paths[:1]
    inside = (Path(path).resolve().is_relative_to(folder.resolve()) for path in paths)
    return all(inside) or paths[:1] == [os.devnull] or "__pycache__" in paths[0]


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError(f"a case took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
