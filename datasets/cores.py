"""Processor cores, and the number of data workers on them."""

import os

MOST = 8
"""Most data workers per rank if their number is not given."""


def cores() -> int:
    """Return the number of cores that this process may use, as set by Slurm or a container."""
    if hasattr(os, "sched_getaffinity"):  # on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def readers(wanted: int) -> int:
    """Return the number of data workers of a rank: `wanted`, or for -1 its share of the cores."""
    if wanted >= 0:
        return wanted
    return min(MOST, max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", 1))))
