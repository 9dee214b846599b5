"""Rank of this process and number of ranks."""

import os
from collections.abc import Mapping
from typing import Any

import torch.distributed as dist

from bload.batch.step import has_group
from bload.errors import InputError, check_whole

WORLD_SIZE_VARIABLES = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Variables with the number of processes that torchrun, srun, Open MPI and MPICH start."""


def resolve_rank(
    rank: int | None, world_size: int | None, process_group: dist.ProcessGroup | None
) -> tuple[int, int]:
    """Return rank and world size, as given or from the process group.

    Raises:
        InputError: they contradict the group, or are missing where they cannot be known.
    """
    if has_group():
        group = dist.get_rank(process_group), dist.get_world_size(process_group)
        if group[0] < 0:
            raise InputError("this process is not in the process_group that was given")
        if rank not in (None, group[0]) or world_size not in (None, group[1]):
            raise InputError(
                f"rank is {rank} and world_size is {world_size}, but this process is rank "
                f"{group[0]} of {group[1]} in its process group; make the loader after the group "
                "and leave rank and world_size out, or give the process_group of the ranks that "
                "share the data"
            )
        return group
    if rank is None and world_size is None:
        for name in WORLD_SIZE_VARIABLES:
            processes = os.environ.get(name, "")
            if processes.isdecimal() and int(processes) > 1:
                raise InputError(
                    f"{name} is {processes} but there is no process group yet; call "
                    "torch.distributed.init_process_group first, or give rank=0, world_size=1 "
                    "if each process is a run of its own or only looks at a batch"
                )
    if (rank is None) != (world_size is None) and world_size != 1:
        raise InputError(
            f"rank is {rank} and world_size is {world_size} without a process group; give both"
        )
    rank = check_whole("rank", rank or 0, 0)
    world_size = check_whole("world_size", 1 if world_size is None else world_size, 1)
    if rank >= world_size:
        raise InputError(f"rank {rank} of {world_size} ranks; ranks count from 0 to world_size - 1")
    return rank, world_size


def compare_ranks(
    settings: Mapping[str, Any], rank: int, world_size: int, group: dist.ProcessGroup | None
) -> None:
    """Raise InputError on every rank of a process group, if there is one, unless all have these."""
    if not has_group():
        return
    resolve_rank(rank, world_size, group)
    gathered: list[Mapping[str, Any]] = [settings] * world_size
    dist.all_gather_object(gathered, settings, group)
    first = gathered[0]
    for number, values in enumerate(gathered):
        for key in {**first, **values}:
            wanted, found = first.get(key), values.get(key)
            if wanted != found and repr(wanted) != repr(found):  # NaN differs from itself
                raise InputError(
                    f"ranks differ: {key} is {wanted} on rank 0 and {found} on rank {number}; "
                    "give every rank the same sequences in one order, options and epoch, and a "
                    "position saved at the same step"
                )
