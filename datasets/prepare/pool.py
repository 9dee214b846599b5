"""Processes that extract videos, and end when they are told to or when this one does."""

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path

from bload.errors import InputError
from datasets.prepare.encoding import Encoding
from datasets.prepare.extraction import Extracted, extract
from datasets.prepare.termination import leave_to_parent

_stop: Event


class Pool:
    """Extracts videos of one root in `workers` processes; leaving it stops them in mid-video."""

    def __init__(self, root: Path, encoding: Encoding, executor: ProcessPoolExecutor) -> None:
        self._extract = partial(_extract, root, encoding)
        self._executor = executor

    def extract(self, videos: list[list[str]]) -> Iterator[Extracted]:
        """What becomes of each video, given as its frames, as soon as it is done."""
        futures = [self._executor.submit(self._extract, frames) for frames in videos]
        try:
            for future in as_completed(futures):
                extracted = future.result()
                if extracted is not None:
                    yield extracted
        except BrokenExecutor:
            raise InputError(
                "a worker process was killed, as systems do when memory runs out; run the same "
                "command again with fewer --workers"
            ) from None


@contextmanager
def open_pool(root: Path, encoding: Encoding, workers: int) -> Iterator[Pool]:
    """A pool for the root at `root`."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(workers, context, _begin, (stop,)) as executor:
        try:
            yield Pool(root, encoding, executor)
        finally:
            stop.set()
            executor.shutdown(cancel_futures=True)


def _begin(stop: Event) -> None:
    global _stop
    _stop = stop
    leave_to_parent()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _extract(root: Path, encoding: Encoding, frames: list[str]) -> Extracted | None:
    return None if _stop.is_set() else extract(root, frames, encoding, _stop.is_set)
