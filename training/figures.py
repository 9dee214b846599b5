"""Cost and losses of epochs, as flat figures for logs and results."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from bload import BlockLoader, Cost
from bload.lengths import freeze_lengths
from training.build import Training
from training.checkpoint import Progress
from training.ranks import Ranks, peak_memory_mib

COUNTS = ("blocks", "steps", "padding", "filler", "deleted", "frames", "processed")


@dataclass
class EpochSums:
    """Sums over the steps of an epoch, of one rank."""

    losses: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    """Clock times: ``seconds``, the whole epoch; ``waiting`` for data."""
    last_lap_at: float = field(default_factory=lambda: time.perf_counter(), repr=False)

    @classmethod
    def from_ranks(cls, saved: Sequence[Mapping[str, Any]], ranks: Ranks) -> Self:
        """Return sums with this rank's part of the `state` of any number of ranks."""
        own = cls()
        for sums in saved[ranks.rank :: ranks.world_size]:
            own.losses.update(sums["losses"])
        if saved:
            own.seconds.update(saved[ranks.rank % len(saved)]["seconds"])
        return own

    def state(self) -> dict[str, dict[str, float]]:
        """Return the sums, for a checkpoint."""
        return {"losses": {**self.losses}, "seconds": {**self.seconds}}

    def drop_lap(self) -> None:
        """Leave the time since the last lap out of the sums."""
        self.last_lap_at = time.perf_counter()

    def lap(self, *names: str) -> None:
        """Add the time since the last lap to each of `names`."""
        lap_at = time.perf_counter()
        self.seconds.update(dict.fromkeys(names, lap_at - self.last_lap_at))
        self.last_lap_at = lap_at


def epoch_figures(
    loader: BlockLoader, sums: EpochSums, ranks: Ranks, skips_padding: bool = False
) -> dict[str, Any]:
    """Return figures of an epoch over all ranks: counts, seconds, frames per second, losses."""
    account = loader.account
    seconds, waiting = max(ranks.gather((sums.seconds["seconds"], sums.seconds["waiting"])))
    cost = Cost(slot=0, frame=1) if skips_padding else Cost()
    return {
        **{name: getattr(account, name) for name in COUNTS},
        "imbalance": loader.sampler.schedule.imbalance(cost),
        "seconds": seconds,
        "waiting_seconds": waiting,
        "frames_per_second": account.frames / seconds,
        "peak_memory_mib": max(ranks.gather(peak_memory_mib(ranks.device))),
        **{name: total / account.steps for name, total in sum_losses(sums.losses, ranks).items()},
    }


def sum_losses(parts: Mapping[str, float], ranks: Ranks) -> dict[str, float]:
    """Sum losses over ranks, in one exchange; parts get names like ``loss_class``."""
    sums = ranks.sum(torch.tensor([*parts.values()], dtype=torch.float64)).tolist()
    names = (name if name == "loss" else f"loss_{name}" for name in parts)
    return dict(zip(names, sums, strict=True))


def summarise(epochs: list[dict[str, Any]]) -> dict[str, float]:
    """Summarise epochs: means of counts, medians of times, sums and peaks, and the last loss."""
    columns = {name: [epoch[name] for epoch in epochs] for name in epochs[0]}
    return {
        **{name: fmean(columns[name]) for name in (*COUNTS, "imbalance")},
        "epoch_seconds": median(columns["seconds"]),
        **{name: median(columns[name]) for name in ("waiting_seconds", "frames_per_second")},
        "train_seconds": sum(columns["seconds"]),
        "peak_memory_mib": max(columns["peak_memory_mib"]),
        "loss": columns["loss"][-1],
    }


def lengths_digest(lengths: ArrayLike) -> str:
    """Return the library's digest of lengths, whatever their order."""
    return freeze_lengths(np.sort(np.asarray(lengths))).digest


def run_summary(folder: Path, training: Training, progress: Progress) -> dict[str, Any]:
    """Return the costs and the recall on validation videos of a run, as in ``summary.json``."""
    cfg = training.cfg
    return {
        "folder": str(folder),
        "loader": cfg.loader.name,
        "clips": vars(cfg.loader).get("clips"),
        "t_max": training.loader.sampler.t_max,
        "lengths": lengths_digest(training.loader.sampler.lengths),
        "starts": cfg.train.starts,
        "ranks": training.ranks.world_size,
        "device": training.ranks.device.type,
        "epochs": cfg.train.epochs,
        **summarise(progress.history),
        "validation_recall@20": progress.recall,
        "best_validation_recall@20": progress.best,
    }
