"""Says where the other ranks are, when a step takes unusually long."""

import json
import sys
import threading
import time

import torch.distributed as dist

USUAL = 60.0
"""Seconds at one place after which a rank asks where the others are."""


class Watchdog:
    """Where this rank is, for itself and for the others.

    A thread writes the place to the store of the process group every few seconds and, once this
    rank has been at one place for `patience` seconds, prints where the others are. It ends nothing:
    the time-out of the process group does that.
    """

    def __init__(
        self, store: dist.Store, rank: int, world_size: int, patience: float = USUAL
    ) -> None:
        self.store, self.rank, self.world_size = store, rank, world_size
        self.patience = patience
        self._place, self._since = "start", time.monotonic()
        self._said = ""
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @property
    def place(self) -> str:
        return self._place

    def at(self, place: str) -> None:
        """Note where this rank is from now on, for example ``epoch 1, step 12``."""
        self._place, self._since = place, time.monotonic()

    def close(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(min(5.0, self.patience / 4)):
            place, seconds = self._place, time.monotonic() - self._since
            try:
                self.store.set(f"place/{self.rank}", json.dumps([place, seconds]))
                if seconds > self.patience and place != self._said:
                    self._said = place
                    print(self._sentence(place, seconds), file=sys.stderr, flush=True)
            except dist.DistError:  # the store is gone, and the job with it
                return

    def _sentence(self, place: str, seconds: float) -> str:
        others = []
        for rank in range(self.world_size):
            if rank != self.rank and self.store.check([f"place/{rank}"]):
                where, age = json.loads(self.store.get(f"place/{rank}"))
                if where != place:
                    others.append(f"rank {rank} is at {where} for {age:.0f} s")
        known = "; ".join(others[:4]) or "the others are there too"
        return f"rank {self.rank} is at {place} for {seconds:.0f} s; {known}"
