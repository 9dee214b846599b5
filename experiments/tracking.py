"""Figures go to ``metrics.jsonl``, the truth, and to wandb, a copy."""

import json
import os
from pathlib import Path
from typing import Any

from experiments.config import WandbConfig
from experiments.run_folder import RunFolder


class Tracker:
    """Writes the figures of a run; on ranks other than the first it does nothing.

    Args:
        config: of the run, as wandb shows it.
        wandb: mode (``offline`` needs no account and no network), project and group.
    """

    def __init__(
        self, folder: RunFolder, config: dict[str, Any], wandb: WandbConfig, active: bool
    ) -> None:
        self.file = folder.metrics.open("a") if active else None
        self.wandb: Any = None
        if active and wandb.mode != "disabled":
            self.wandb = _wandb_run(folder.path, config, wandb)

    def log(self, kind: str, epoch: int, step: int, **figures: Any) -> None:
        """Write a line: `kind` (step, epoch, eval, summary), place in training, and the figures."""
        if self.file is None:
            return
        line = {"kind": kind, "epoch": epoch, "step": step, **figures}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        if self.wandb is None:
            return
        numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
        values: dict[str, Any] = {f"{kind}/{key}": value for key, value in numbers.items()}
        if kind == "summary":
            import wandb

            rows = [[name, str(value)] for name, value in figures.items()]
            values["figures"] = wandb.Table(columns=["figure", "value"], data=rows)
        self.wandb.log({"epoch": epoch if kind == "summary" else epoch + 1, **values})

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        if self.wandb is not None:
            self.wandb.finish()


def _wandb_run(path: Path, config: dict[str, Any], options: WandbConfig) -> Any:
    import wandb  # slow to import, and wanted by one rank only

    # In a sweep of wandb its agent has chosen the id; elsewhere the same run goes on.
    ours: Any = {"id": f"{path.parent.name}-{path.name}", "resume": "allow"}
    run = wandb.init(
        mode=options.mode,  # type: ignore[arg-type]
        project=options.project,
        group=options.group,
        name=path.name,
        dir=str(path),
        config=config,
        settings=wandb.Settings(silent=True, console="off"),
        **({} if "WANDB_SWEEP_ID" in os.environ else ours),
    )
    for kind in ("epoch", "eval"):
        run.define_metric(f"{kind}/*", step_metric="epoch")
    return run
