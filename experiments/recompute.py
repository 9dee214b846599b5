"""Whether the per-frame part is recomputed in the backward pass, to save memory."""

import torch

from experiments.config import TrainJob
from experiments.memory import free_memory
from experiments.ranks import Ranks, autocast
from models.cost import measure_cost

SHARE = 0.8
"""Of the free memory; the rest is for what is not kept: temporaries, losses, fragments."""


def recompute(cfg: TrainJob, blocks: int, slots: int, ranks: Ranks) -> bool:
    """Decide by ``model.checkpoint``: ``none``, ``backbone``, or ``auto``, which says why.

    ``auto`` recomputes if on any rank a step without it would not fit into the free memory.

    Args:
        blocks, slots: blocks of a rank's step, and slots of a block.
    """
    choice, frame_size = cfg.model.checkpoint, cfg.dataset.frame_size
    if choice != "auto":
        return choice == "backbone"
    precision, frames = autocast(cfg.train.amp, ranks.device), blocks * slots
    cost = measure_cost(cfg.model, (frame_size[0], frame_size[1]), slots, precision, ranks.device)
    keeping, recomputing = (
        cost.activations(frames, again) + cost.optimiser_bytes for again in (False, True)
    )
    room = SHARE * free_memory(ranks.device)
    short = bool(ranks.sum(torch.tensor(int(keeping > room))))
    if ranks.is_first:
        print(
            f"a step of {frames} frames takes about {keeping / 2**30:.1f} GiB, or "
            f"{recomputing / 2**30:.1f} with activations recomputed; {room / 2**30:.1f} GiB "
            f"({SHARE:.0%} of what is free) are there: "
            f"{'recomputing' if short else 'keeping'} them (model.checkpoint=auto)"
        )
    return short
