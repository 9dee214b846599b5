"""Figures go to ``metrics.jsonl``, the truth, and to wandb, a copy."""

import json
from pathlib import Path
from typing import Any

from bload.training.run_folder import RunFolder


class Tracker:
    """Writes the figures of a run; on ranks other than the first it does nothing.

    Args:
        wandb: mode (``offline`` needs no account and no network, ``online``, ``disabled``),
            project and group.
    """

    def __init__(
        self, folder: RunFolder, config: dict[str, Any], wandb: dict[str, Any], active: bool
    ) -> None:
        self.active = active
        self.wandb = None
        if not active:
            return
        self.file = folder.metrics.open("a")
        if wandb["mode"] != "disabled":
            self.wandb = _wandb_run(folder.path, config, wandb)

    def log(self, kind: str, epoch: int, step: int, **figures: Any) -> None:
        """One line: `kind` (step, epoch, eval, summary), where in training, and the figures."""
        if not self.active:
            return
        line = {"kind": kind, "epoch": epoch, "step": step, **figures}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        if self.wandb is not None:
            numbers = {k: v for k, v in figures.items() if isinstance(v, int | float)}
            self.wandb.log({f"{kind}/{key}": value for key, value in numbers.items()})

    def close(self) -> None:
        if self.active:
            self.file.close()
        if self.wandb is not None:
            self.wandb.finish()


def _wandb_run(path: Path, config: dict[str, Any], options: dict[str, Any]) -> Any:
    import wandb  # slow to import, and wanted by one rank only

    return wandb.init(
        mode=options["mode"],
        project=options["project"],
        group=options["group"],
        name=path.name,
        id=path.name,
        resume="allow",
        dir=str(path),
        config=config,
        settings=wandb.Settings(silent=True, console="off"),
    )
