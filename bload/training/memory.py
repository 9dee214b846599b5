"""Peak memory of this process."""

import resource
import sys

import torch


def peak_memory_mib(device: torch.device) -> float:
    """MiB: the GPU's allocated peak, or on the CPU the resident peak of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
