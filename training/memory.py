"""Memory: the peak of this process, what is free, and what is recomputed so that a step fits.

On a CPU it is read from Linux; elsewhere there are zeros, so that everything is recomputed.
"""

import contextlib
import ctypes
import os
from pathlib import Path

import torch

from bload import BlockSampler
from training.config import TrainJob
from training.ranks import Ranks, autocast

MEMORY_SHARES = {"cuda": 0.8, "cpu": 0.45}
"""Share of the free memory to plan for. The rest is for temporaries and losses, and on CPUs also
for freed tensors that the C library keeps: up to three quarters of what is in use."""


def reset_peak_memory(device: torch.device) -> int:
    """Reset the peak, since a process may train several runs; return the bytes held now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what the C library has freed
        Path("/proc/self/clear_refs").write_text("5")
    return _read_kib("/proc/self/status", "VmRSS") * 2**10


def free_memory(device: torch.device) -> int:
    """Return the bytes available: free on the GPU, or this rank's share of the machine's.

    A container's own limit is ignored.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()  # the allocator's cache counts as free
        return torch.cuda.mem_get_info(device)[0]
    ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return _read_kib("/proc/meminfo", "MemAvailable") * 2**10 // ranks_here


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak in MiB: allocated on the GPU, or resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return _read_kib("/proc/self/status", "VmHWM") / 2**10


def _read_kib(path: str, name: str) -> int:
    """Read a value from a file of Linux; 0 elsewhere."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def choose_recomputed(cfg: TrainJob, ranks: Ranks, sampler: BlockSampler) -> float:
    """Choose the least share of pictures to recompute so that a step fits on every rank.

    It is for ``model.recompute=auto``, and prints the memory that a step takes.
    """
    from models.cost import GIB, measure_cost  # for this alone

    height, width = cfg.dataset.frame_size
    shape_BT = sampler.epochs.blocks_per_batch, sampler.plan.t_max
    precision = autocast(cfg.train.amp, ranks.device)
    cost = measure_cost(cfg.model, (height, width), shape_BT, precision, ranks.device)
    free = MEMORY_SHARES[ranks.device.type] * free_memory(ranks.device)
    share: float = max(ranks.gather(cost.least_share(free)))
    whole, least, chosen = (cost.step_bytes(part) / GIB for part in (0, 1, share))
    ranks.print(
        f"a step of {cost.frames} frames takes about {whole:.1f} GiB, or {least:.1f} with "
        f"activations recomputed; {free / GIB:.1f} GiB are there: recomputing {share:.0%} of the "
        f"pictures, which takes {chosen:.1f} GiB (model.recompute=auto)"
    )
    return share
