"""What epochs cost and gave, as flat figures for logs and results."""

import numpy as np
import torch

from bload.loader import BlockLoader
from experiments.memory import peak_memory_mib
from experiments.ranks import Ranks


def epoch_figures(loader: BlockLoader, sums: dict[str, float], ranks: Ranks) -> dict:
    """What an epoch cost and gave, over all ranks: counts, seconds, frames a second, losses."""
    account = loader.account
    parts = [name for name in sums if name not in ("seconds", "waiting")]
    totals = ranks.sum(torch.tensor([sums[name] for name in parts], dtype=torch.float64))
    seconds, waiting = max(ranks.gather((sums["seconds"], sums["waiting"])))  # of the slowest rank
    return {
        "blocks": account.blocks,
        "steps": account.steps,
        "padding": account.padding,
        "filler": account.filler,
        "deleted": account.deleted,
        "frames": account.frames,
        "processed": account.processed,
        "seconds": seconds,
        "waiting_seconds": waiting,
        "frames_per_second": account.frames / seconds,
        "processed_per_second": account.processed / seconds,
        "peak_memory_mib": max(ranks.gather(peak_memory_mib(ranks.device))),
        **{
            f"loss_{name}" if name != "loss" else name: float(total) / account.steps
            for name, total in zip(parts, totals, strict=True)
        },
    }


def summarise(epochs: list[dict]) -> dict:
    """Means over epochs of what differs between them, and the last losses."""
    counted = ("blocks", "steps", "padding", "filler", "deleted", "frames", "processed")
    figures = {name: float(np.mean([epoch[name] for epoch in epochs])) for name in counted}
    for name in ("seconds", "waiting_seconds", "frames_per_second", "processed_per_second"):
        figures[f"epoch_{name}" if name == "seconds" else name] = float(
            np.median([epoch[name] for epoch in epochs])
        )
    figures["train_seconds"] = float(sum(epoch["seconds"] for epoch in epochs))
    figures["peak_memory_mib"] = max(epoch["peak_memory_mib"] for epoch in epochs)
    figures["loss"] = epochs[-1]["loss"]
    return figures
