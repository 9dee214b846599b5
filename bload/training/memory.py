"""Peak memory of this process."""

import contextlib
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


def peak_memory_mib(device: torch.device) -> float:
    """MiB: the GPU's allocated peak, or on the CPU the resident peak of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if (PROC / "status").exists():
        lines = (PROC / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
