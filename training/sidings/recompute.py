"""How many pictures to recompute so that a step fits into memory: ``model.recompute=auto``."""

from bload import BlockSampler
from models.cost import GIB, measure_cost
from training.config import TrainJob
from training.memory import free_memory
from training.ranks import Ranks, autocast

MEMORY_SHARES = {"cuda": 0.8, "cpu": 0.45}
"""Share of the free memory to plan for. The rest is for temporaries and losses, and on CPUs also
for freed tensors that the C library keeps: up to three quarters of what is in use."""


def choose(cfg: TrainJob, ranks: Ranks, sampler: BlockSampler) -> float:
    """Choose the least share with which a step fits on every rank; print the memory it takes."""
    height, width = cfg.dataset.frame_size
    frames, part = sampler.blocks_per_batch * sampler.plan.t_max, MEMORY_SHARES[ranks.device.type]
    precision = autocast(cfg.train.amp, ranks.device)
    cost = measure_cost(cfg.model, (height, width), sampler.plan.t_max, precision, ranks.device)
    free = part * free_memory(ranks.device)
    share: float = max(ranks.gather(cost.least_share(frames, free)))
    if ranks.is_first:
        full_gib, chosen_gib, least_gib = (
            cost.step_bytes(frames, recomputed) / GIB for recomputed in (0, share, 1)
        )
        print(
            f"a step of {frames} frames takes about {full_gib:.1f} GiB, or {least_gib:.1f} with "
            f"activations recomputed; {free / GIB:.1f} GiB ({part:.0%} of what is free) are there: "
            f"recomputing {share:.0%} of the pictures, which takes {chosen_gib:.1f} GiB "
            "(model.recompute=auto)"
        )
    return share
