"""Memory: the peak of this process, and what is free."""

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path

import torch


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


def _read_kib(path: str, name: str) -> int:
    """Read a value from a file of Linux; 0 elsewhere."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
