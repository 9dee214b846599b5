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
    shape_BT = sampler.blocks_per_batch, sampler.plan.t_max
    precision = autocast(cfg.train.amp, ranks.device)
    cost = measure_cost(cfg.model, (height, width), shape_BT, precision, ranks.device)
    free = MEMORY_SHARES[ranks.device.type] * free_memory(ranks.device)
    share: float = max(ranks.gather(cost.least_share(free)))
    if ranks.is_first:
        whole, least, chosen = (cost.step_bytes(part) / GIB for part in (0, 1, share))
        print(
            f"a step of {cost.frames} frames takes about {whole:.1f} GiB, or {least:.1f} with "
            f"activations recomputed; {free / GIB:.1f} GiB are there: recomputing {share:.0%} of "
            f"the pictures, which takes {chosen:.1f} GiB (model.recompute=auto)"
        )
    return share
