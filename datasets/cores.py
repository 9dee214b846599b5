"""Cores of the processor, how many processes read on them, and who else uses them."""

import os
import time
from pathlib import Path

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


def crowded(load: Path = Path("/proc/loadavg")) -> str:
    """Advice where others run on half of the cores or more and nobody set the threads; else ''.

    Threads wait for each other at every operation, for as long as one of them has no core.

    Args:
        load: the file of Linux that tells how many are running, this process among them.
    """
    found = []
    try:
        for _ in range(5):
            found.append(int(load.read_text().split()[3].partition("/")[0]) - 1)
            time.sleep(0.01)
    except (OSError, ValueError, IndexError):
        return ""
    machine = os.cpu_count() or 1
    others = min(*found, machine)
    if "OMP_NUM_THREADS" in os.environ or others < machine / 2:
        return ""
    return (
        f"Other processes use {others} of {machine} cores: stopping this and starting it again "
        "after `export OMP_NUM_THREADS=1` may be several times faster."
    )
