"""Decide on every rank alike whether the per-frame part is recomputed in the backward pass."""

import torch

from experiments.config import TrainJob
from experiments.memory import free_memory
from experiments.ranks import Ranks, autocast
from models.cost import measure_cost


def recompute(cfg: TrainJob, blocks: int, slots: int, ranks: Ranks) -> bool:
    """Decide by ``model.checkpoint``: ``none``, ``backbone``, or ``auto``, which prints why.

    ``auto`` recomputes if on any rank a step without it would not fit into the free memory.

    Args:
        blocks, slots: blocks of a rank's step, and slots of a block.
    """
    if cfg.model.checkpoint != "auto":
        return cfg.model.checkpoint == "backbone"
    height, width = cfg.dataset.frame_size
    precision, frames = autocast(cfg.train.amp, ranks.device), blocks * slots
    cost = measure_cost(cfg.model, (height, width), slots, precision, ranks.device)
    free = free_memory(ranks.device)
    short = bool(ranks.sum(torch.tensor(int(not cost.fits(frames, free)))))
    if ranks.is_first:
        print(cost.decision(frames, free, recompute=short))
    return short
