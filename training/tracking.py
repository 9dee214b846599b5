"""Figures go to ``metrics.jsonl``, the truth, and to wandb, a copy."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bload import Plan
from datasets.write_whole import full_disk_named
from training.checkpoint import Start
from training.config import WandbConfig
from training.folder import RunFolder

if TYPE_CHECKING:
    from training.wandb_run import WandbRun

STATE = "wandb.json"
"""In a run's folder: what its copy in wandb has, see `training.wandb_run`."""
PATIENCE = 60.0
"""Seconds that a finished run waits for wandb."""
STOP_PATIENCE = 5.0
"""Seconds that a stopped or failed run waits for wandb."""


class Tracker:
    """Writes the figures of a run; on ranks other than the first it does nothing.

    As a context it is closed at the end of the body, after an exception with less patience.

    Args:
        config: of the run, as wandb shows it.
        wandb: ``offline`` needs no account and no network.
        start: where the run begins or goes on; one that begins is a new one in wandb too.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: dict[str, Any],
        wandb: WandbConfig,
        start: Start,
        active: bool,
    ) -> None:
        self.file = folder.metrics.open("a") if active else None
        self.steps = sum(epoch["steps"] for epoch in start.progress.epochs)
        """Of the epochs that are finished."""
        self.finished = len(start.progress.epochs)
        self.epoch = self.finished + 1
        self.wandb: WandbRun | None = None
        if active and start.checkpoint is None:
            (folder.path / STATE).unlink(missing_ok=True)
        if active and (wandb.mode or os.environ.get("WANDB_MODE")) != "disabled":
            with self._in_the_way():
                self._open(folder.path / STATE, config, wandb)

    def _open(self, state: Path, config: dict[str, Any], options: WandbConfig) -> None:
        # Slow to import, and wanted by one rank only.
        from training.wandb_run import OFFLINE, WandbRun, mode_of

        mode = mode_of(options)
        if mode == "disabled":
            return
        try:
            self.wandb = WandbRun(state, config, options, mode)
        except Exception as error:  # of wandb's many kinds, and of its service's
            if mode in OFFLINE:
                raise
            self.wandb = WandbRun(state, config, options, "offline")
            later = self.wandb.later
            print(f"wandb: {_sentence(error)}; going on offline, {later} sends it later")
        if not self.wandb.offline:
            print(f"wandb: {self.wandb.run.url}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(PATIENCE if kind is None else STOP_PATIENCE)

    def log(self, kind: str, epoch: int, step: int, **figures: Any) -> None:
        """Write a line: `kind` (step, epoch, eval, summary), place in training, and the figures."""
        if self.file is None:
            return
        line = {"kind": kind, "epoch": epoch, "step": step, **figures}
        with full_disk_named(Path(self.file.name)):
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
        numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
        self.epoch = epoch if kind == "summary" else epoch + 1
        if kind == "epoch":
            self.steps += step
            self.finished = epoch + 1
        with self._in_the_way():
            if self.wandb is None:
                return
            if kind == "summary":
                self.wandb.table(self.epoch, self.steps, numbers)
            else:
                values = {f"{kind}/{key}": value for key, value in numbers.items()}
                place = self.steps + (step if epoch >= self.finished else 0)
                self.wandb.log(kind, self.epoch, place, values)

    def draw(self, plans: dict[str, Plan]) -> None:
        """Send wandb a picture of the first blocks of plans by loader."""
        with self._in_the_way():
            if self.wandb is not None:
                self.wandb.draw(self.epoch, self.steps, plans)

    def show(self, pictures: Iterable[Path]) -> None:
        """Send wandb files of pictures."""
        with self._in_the_way():
            if self.wandb is not None:
                self.wandb.show("pictures", self.epoch, self.steps, pictures)

    def close(self, patience: float = PATIENCE) -> None:
        """Finish the files; wandb has `patience` seconds for its own."""
        if self.file is not None:
            self.file.close()
        with self._in_the_way():
            if self.wandb is not None:
                self.wandb.finish(patience)
                if self.wandb.offline:
                    print(f"wandb: {self.wandb.later} sends this run")

    @contextmanager
    def _in_the_way(self) -> Iterator[None]:
        """Go on without wandb if it fails: the figures are in ``metrics.jsonl``."""
        try:
            yield
        except Exception as error:  # of wandb's many kinds, and of its service's
            later = f", {self.wandb.later} sends what it has" if self.wandb else ""
            self.wandb = None
            print(f"wandb: {_sentence(error)}; going on without it{later}")


def _sentence(error: Exception) -> str:
    """What an error of wandb says, in one line."""
    return " ".join(str(error).split()).rstrip(".")
