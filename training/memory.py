"""Memory: the peak of this process, what is free, and how much to recompute to fit."""

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path

import torch

from models.config import share_of
from models.cost import GIB, measure_cost
from training.config import TrainJob
from training.ranks import Ranks, autocast

SHARE = 0.8
"""Share of the free memory to plan for; the rest is for temporaries and losses."""
M_MMAP_THRESHOLD = -3
"""glibc's option for the bytes from which on a tensor gets its own pages."""
_returns_freed = False


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak, since a process may train several runs; no effect on CPUs outside Linux."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def free_memory(device: torch.device) -> int:
    """Return the bytes available to this process: free on the GPU, or its share of the machine's.

    On the CPU that is what Linux calls available (elsewhere half of the memory), divided by the
    ranks that torchrun started here. A container's own limit is ignored.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()  # the allocator's cache counts as free
        return torch.cuda.mem_get_info(device)[0]
    built_in = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = _read_kib("/proc/meminfo", "MemAvailable") * 2**10 or built_in // 2
    return free // int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def return_freed_memory(on: bool) -> None:
    """Turn on or off the immediate return of freed CPU tensors to the system, if libc is glibc.

    By default glibc keeps tensors below 32 MiB in heaps, which shrink only from the end: a step of
    ``model=dds`` then takes a third to three quarters more than its tensors. Returning pages costs
    time.
    """
    global _returns_freed
    if on != _returns_freed:
        _returns_freed = on
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**18 if on else 2**25)


def trim_memory() -> None:
    """Return the C library's freed memory to the system, out of the next peak."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def taken_memory(device: torch.device) -> int:
    """Return the bytes that this process holds: allocated on the GPU, or resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return _read_kib("/proc/self/status", "VmRSS") * 2**10


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak in MiB: allocated on the GPU, or resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if peak := _read_kib("/proc/self/status", "VmHWM"):
        return peak / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, else KiB


def recompute(cfg: TrainJob, blocks: int, slots: int, ranks: Ranks) -> float:
    """Return the share of the pictures to recompute, by ``model.checkpoint``.

    ``auto`` chooses the least share with which a step fits on every rank, and prints why. On the
    CPU it also has freed memory returned at once, since no estimate would hold otherwise.

    Args:
        blocks, slots: blocks of a rank's batch, and slots of a block.
    """
    is_auto = cfg.model.checkpoint == "auto"
    return_freed_memory(is_auto and ranks.device.type == "cpu")
    if not is_auto:
        return share_of(cfg.model.checkpoint)
    height, width = cfg.dataset.frame_size
    precision, frames = autocast(cfg.train.amp, ranks.device), blocks * slots
    cost = measure_cost(cfg.model, (height, width), slots, precision, ranks.device)
    free = SHARE * free_memory(ranks.device)
    share: float = max(ranks.gather(cost.share(frames, free)))
    if ranks.is_first:
        none, some, most = (cost.step(frames, one) / GIB for one in (0, share, 1))
        print(
            f"a step of {frames} frames takes about {none:.1f} GiB, or {most:.1f} with activations "
            f"recomputed; {free / GIB:.1f} GiB ({SHARE:.0%} of what is free) are there: "
            f"recomputing {share:.0%} of the pictures, which takes {some:.1f} GiB "
            "(model.checkpoint=auto)"
        )
    return share


def _read_kib(path: str, name: str) -> int:
    """Read a value from a file of Linux; 0 elsewhere."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
