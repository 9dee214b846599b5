"""Tracking: figures go to ``metrics.jsonl``, and a copy to wandb."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datasets.files import write_whole
from training.checkpoint import Progress
from training.config import TrainJob
from training.folder import RunFolder


class Tracker:
    """Writes the figures of a run on the first rank; a new run is a new one in wandb too."""

    def __init__(
        self, folder: RunFolder, cfg: TrainJob, progress: Progress, *, is_new: bool, active: bool
    ) -> None:
        self.file = folder.metrics.open("a") if active else None
        self.progress = progress
        self.wandb: Any = None
        mode = cfg.wandb.mode or os.environ.get("WANDB_MODE", "offline")
        if active and mode != "disabled":
            with self._guarded():
                self._begin(folder.path, cfg, mode, is_new)

    def _begin(self, folder: Path, cfg: TrainJob, mode: Any, is_new: bool) -> None:
        import wandb  # slow, and needed by one rank only

        saved_id = folder / "wandb_id"
        wandb_id = saved_id.read_text() if saved_id.exists() and not is_new else None
        self.wandb = wandb.init(
            mode=mode,
            project=cfg.wandb.project or os.environ.get("WANDB_PROJECT", "bload"),
            group=cfg.wandb.group,
            name=os.environ.get("WANDB_NAME", folder.name),
            id=os.environ.get("WANDB_RUN_ID", wandb_id),
            resume="allow" if wandb_id else None,
            config=asdict(cfg),
            # Else a job begun after wandb failed would go on with the run of the job before.
            settings=wandb.Settings(silent=True, console="off", reinit="create_new"),
        )
        write_whole(saved_id, self.wandb.id)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        if self.wandb is not None:
            with self._guarded():
                self.wandb.finish()

    def log(self, kind: str, epoch: int, step: int, figures: Mapping[str, Any]) -> None:
        """Write a line: `kind` (step, epoch, eval, summary), epoch from 1, its step, figures."""
        if self.file is None:
            return
        line = {"kind": kind, "epoch": epoch, "step": step, **figures}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        if self.wandb is not None:
            values = {f"{kind}/{k}": v for k, v in figures.items() if isinstance(v, int | float)}
            # wandb's own step counts the optimiser's steps over all epochs.
            finished = sum(figures["steps"] for figures in self.progress.history)
            taken = finished + step * (epoch > len(self.progress.history))
            with self._guarded():  # a resumed run of wandb drops what is before its step
                self.wandb.log({"epoch": epoch, **values}, step=max(taken, self.wandb.step))

    def show(self, picture: Path) -> None:
        """Send wandb a picture, if it exists, by its name."""
        if self.wandb is not None and picture.exists():
            with self._guarded():
                import wandb

                self.wandb.log({f"pictures/{picture.stem}": wandb.Image(str(picture))})

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Continue without wandb if it fails: the figures are in ``metrics.jsonl``."""
        try:
            yield
        except Exception as error:  # wandb and its service raise many kinds
            self.wandb = None
            print(f"warning: wandb: {error}; going on without it")
