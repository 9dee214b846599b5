"""Memory: the peak of this process, and what is left for it."""

import contextlib
import os
import resource
import sys
from pathlib import Path

import torch

PROC = Path("/proc/self")


def reset_peak_memory(device: torch.device) -> None:
    """Begin to measure anew: a process may train several runs. Off Linux the CPU cannot."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):
            (PROC / "clear_refs").write_text("5")


def free_memory(device: torch.device) -> int:
    """Bytes that this process may still take: free on the GPU, or its share of the machine's.

    On the CPU that is what Linux calls available (elsewhere half of what is built in), divided by
    the ranks that torchrun started here. A container's own limit is not looked at.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if Path("/proc/meminfo").exists():
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) << 10
    else:
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return free // int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def peak_memory_mib(device: torch.device) -> float:
    """MiB: the GPU's allocated peak, or on the CPU the resident peak of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if (PROC / "status").exists():
        lines = (PROC / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
