"""Cores of the processor, and how many processes read on them."""

import os

MOST = 8
"""Reading processes of a rank that are started where nobody says how many."""


def cores() -> int:
    """Return how many cores this process may use: those of its Slurm task or container's set."""
    if hasattr(os, "sched_getaffinity"):  # on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def readers(wanted: int) -> int:
    """Return how many processes read for a rank: `wanted`, or its share of the cores for -1."""
    if wanted >= 0:
        return wanted
    return min(MOST, max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", 1))))
