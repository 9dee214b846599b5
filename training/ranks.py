"""The ranks of one job: this process's place among them, and what they exchange."""

import atexit
import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

from bload.errors import InputError
from training.stopping import AgreedError, StopRequest, end_with_parent

CGROUP = Path("/sys/fs/cgroup")
"""Folder of a container's limits (Linux), such as ``cpu.max``: microseconds in a period, period."""


@dataclass(frozen=True)
class Ranks:
    """Place of this process among its peers. Without torchrun it is rank 0 of 1."""

    rank: int
    world_size: int
    device: torch.device
    stop: StopRequest = field(default_factory=StopRequest, compare=False)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def print(self, text: str) -> None:
        """Print a text on rank 0, above a progress bar if there is one."""
        if self.is_first:
            tqdm.write(text)
            sys.stdout.flush()

    def show_progress(
        self, steps: Iterable[Any], title: str, total: int | None, done: int = 0
    ) -> Iterator[Any]:
        """Yield the steps, with a progress bar on rank 0 if it writes to a terminal."""
        hidden = None if self.is_first else True
        yield from tqdm(steps, title, total, initial=done, leave=False, disable=hidden)

    def barrier(self) -> None:
        if self.world_size > 1:
            dist.barrier()

    @contextmanager
    def agree_on_errors(self) -> Iterator[None]:
        """Raise on every rank the first `InputError` or `OSError` that the body raises on any.

        Otherwise the other ranks would go on, and meet the failed rank in its next job. The body
        must not wait for other ranks.

        Raises:
            AgreedError: in their place.
        """
        own_error, words = None, ""
        try:
            yield
        except (InputError, OSError) as error:
            own_error, words = error, str(error) or repr(error)
        message = next(filter(None, self.gather(words)), None)
        if message:
            raise AgreedError(message) from own_error

    def sum(self, values: Tensor) -> Tensor:
        """Sum `values` over ranks, in place."""
        if self.world_size > 1:
            dist.all_reduce(values)
        return values

    def largest(self, *numbers: int) -> list[int]:
        """Return the largest of each number over ranks."""
        values = torch.tensor(numbers)
        if self.world_size > 1:
            dist.all_reduce(values, dist.ReduceOp.MAX)
        return values.tolist()

    def gather(self, value: object) -> list:
        """Return `value` of every rank, in rank order."""
        if self.world_size == 1:
            return [value]
        values: list = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values


def join_ranks(device: str, timeout: float, deterministic: bool = False) -> Ranks:
    """Join the ranks that torchrun started, once for all jobs of this process.

    Args:
        device: ``auto`` (the rank's GPU if there is one), ``cpu`` or ``cuda``.
        timeout: seconds to wait for the other ranks; that of the first job holds.
        deterministic: let torch refuse every nondeterministic operation.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()  # a rank with its torchrun
    set_deterministic(deterministic)
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if rank >= world_size:
        lacks = f"RANK is {rank} but WORLD_SIZE is {os.environ.get('WORLD_SIZE', 'not set')}"
        raise InputError(f"{lacks}; start by torchrun, which sets both, or unset RANK")
    if world_size > 1 and not dist.is_initialized():
        # Small values on the host use gloo even if gradients use nccl: no GPU synchronises.
        on_gpus = device != "cpu" and torch.cuda.is_available()
        backend = "cpu:gloo,cuda:nccl" if on_gpus else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
        atexit.register(dist.destroy_process_group)
    ranks = Ranks(rank, world_size, torch.device("cpu"))
    with ranks.agree_on_errors():
        return replace(ranks, device=_device(device, int(os.environ.get("LOCAL_RANK", 0))))


def _device(name: str, local_rank: int) -> torch.device:
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    gpu_count = torch.cuda.device_count()
    if gpu_count == 1 and "CUDA_VISIBLE_DEVICES" in os.environ:  # the process sees only its own
        local_rank = 0
    if local_rank >= gpu_count:
        raise InputError(
            f"rank {local_rank} of this machine needs a GPU of its own, and torch sees "
            f"{gpu_count}; set train.device=cpu, in eval.py device=cpu, or start fewer processes"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def set_deterministic(enabled: bool) -> None:
    """Turn deterministic algorithms on or off for this process, before it uses a GPU."""
    if enabled:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it once
    torch.use_deterministic_algorithms(enabled)
    torch.backends.cudnn.deterministic = enabled


def autocast(amp: str, device: torch.device, cache_enabled: bool = True) -> torch.autocast:
    """Return the precision of forward passes; ``auto``: bf16 on GPUs that support it, else full."""
    enabled = amp == "bf16" or (
        amp == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    )
    return torch.autocast(device.type, torch.bfloat16, enabled, cache_enabled)


def count_cores() -> int:
    """Return the number of this rank's cores, of the machine or its container; at least 1."""
    on_linux = hasattr(os, "sched_getaffinity")  # as set by Slurm or a container
    cores = len(os.sched_getaffinity(0)) if on_linux else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or "max"
        quota, period = map(int, (CGROUP / "cpu.max").read_text().split())
        cores = min(cores, quota // period)
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))


def reset_peak_memory(device: torch.device) -> int:
    """Reset the peak, since a process may train several runs; return the bytes held now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_reserved(device)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what the C library has freed
        Path("/proc/self/clear_refs").write_text("5")
    return _read_number(Path("/proc/self/status"), "VmRSS") * 2**10


def free_memory(device: torch.device) -> int:
    """Return the bytes available: free on the GPU, or this rank's share of the host's.

    The host is the machine or, by the files of Linux's cgroup v2, a container.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()  # the allocator's cache counts as free
        return torch.cuda.mem_get_info(device)[0]
    free = _read_number(Path("/proc/meminfo"), "MemAvailable") * 2**10
    with suppress(OSError, ValueError):  # no such file, or "max"
        limit, used = (int((CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        cached = _read_number(CGROUP / "memory.stat", "inactive_file")  # given back when needed
        free = min(free, limit - used + cached)
    return free // int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak in MiB: reserved on the GPU, graphs included, or resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / 2**20
    return _read_number(Path("/proc/self/status"), "VmHWM") / 2**10


def _read_number(path: Path, name: str) -> int:
    """Read a value from a file of Linux, in its unit; 0 elsewhere."""
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
