"""The processes of one job: who this one is, and what they tell each other."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from bload.errors import InputError
from training.config import TIMEOUT
from training.failures import WAITED, WORKERS, describe
from training.stopping import Stopped, StopRequest, end_launcher, fork_apart, watch_launcher
from training.watchdog import Watchdog

ERROR_KEY = "bload/error"
ANSWER = 5.0
"""Seconds that a rank which fails waits for an answer of the store."""


@dataclass(frozen=True)
class Ranks:
    """This process among its peers. Without torchrun it is rank 0 of 1."""

    rank: int
    world_size: int
    device: torch.device
    store: dist.Store | None = None
    stop: StopRequest = field(default_factory=StopRequest)
    watchdog: Watchdog | None = None
    timeout: float = TIMEOUT

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def at(self, place: str) -> None:
        """Note where this rank is, for those that wait for it."""
        if self.watchdog:
            self.watchdog.at(place)

    def describe(self, error: BaseException) -> str:
        """A sentence for any error; for a time-out it says who has waited, where and for whom."""
        if not timed_out(error):
            return describe(error, self.rank)
        place = f" at {self.watchdog.place}" if self.watchdog else ""
        others = ", ".join(str(rank) for rank in range(self.world_size) if rank != self.rank)
        whom, hint = f"rank{'s' * (self.world_size > 2)} {others}", ""
        if "DataLoader" in str(error):
            whom, hint = "data", f"{WORKERS}; "
        return (
            f"rank {self.rank}{place} {WAITED} {whom} for {self.timeout:.0f} s "
            f"(train.timeout, in eval.py timeout); {hint}give the same command again; a training "
            "goes on from its last checkpoint"
        )

    def barrier(self) -> None:
        if self.world_size > 1:
            dist.barrier()

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Rank 0 goes through the body while the others wait; then they go, and find it done."""
        if not self.is_first:
            self.barrier()
        yield
        if self.is_first:
            self.barrier()

    def sum(self, values: Tensor) -> Tensor:
        """Sum of `values` over ranks, in place."""
        if self.world_size > 1:
            dist.all_reduce(values)
        return values

    def stopping(self) -> bool:
        """True on every rank if a signal has asked any of them to stop."""
        return bool(self.sum(torch.tensor([float(self.stop.number)])) > 0)

    def stopped(self, saved: str) -> Stopped:
        """What every rank raises once they have agreed to stop, with the signal of one of them."""
        return Stopped(max(self.gather(self.stop.number)), saved)

    def told(self) -> str:
        """Return why another rank failed, if one has said so; else an empty string."""
        return _tell(self.store, "", listen=True)

    def gather(self, value: object) -> list:
        """`value` of every rank, in rank order."""
        if self.world_size == 1:
            return [value]
        values: list = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values


@contextmanager
def start_ranks(
    device: str, timeout: float = TIMEOUT, deterministic: bool = False
) -> Iterator[Ranks]:
    """Join the process group that torchrun set up, and leave it.

    Ranks that fail only because another did, raise what the other raised. From here on a signal
    raises `Stopped`, and a rank ends soon after its launcher.

    Args:
        device: ``auto`` (the rank's GPU if there is one), ``cpu`` or ``cuda``.
        timeout: seconds to wait for the other ranks.
        deterministic: let torch refuse every operation that may differ from run to run.
    """
    if deterministic:
        make_deterministic()
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    stop = StopRequest()
    ranks = Ranks(rank, world_size, torch.device("cpu"), stop=stop, timeout=timeout)
    watch_launcher()
    fork_apart()
    try:
        with stop.installed():
            ranks = _join(device, timeout, stop)
            yield ranks
    except Exception as error:
        said = ranks.describe(error)
        if told := _tell(ranks.store, said, listen=not isinstance(error, InputError)):
            raise InputError(told) from None
        if timed_out(error):
            raise InputError(said) from error
        raise
    if ranks.watchdog:
        ranks.watchdog.close()
    if dist.is_initialized():
        dist.destroy_process_group()


def timed_out(error: BaseException) -> bool:
    """True for a wait for other ranks, or for data workers, that has taken too long."""
    words = ("timed out", "wait timeout")
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in words)


def _tell(store: dist.Store | None, sentence: str, listen: bool) -> str:
    """Leave why this rank fails for the others, or return what one of them has left before.

    The store may be beyond a link that is cut, and an answer of it never come.
    """
    heard = [""]
    if store is None:
        return ""

    def ask() -> None:
        with suppress(dist.DistError):
            if listen and store.check([ERROR_KEY]):
                heard[0] = store.get(ERROR_KEY).decode()
            elif sentence:
                store.set(ERROR_KEY, sentence)

    asking = threading.Thread(target=ask, name="ask the store", daemon=True)
    asking.start()
    asking.join(ANSWER)
    if asking.is_alive() and "TORCHELASTIC_RUN_ID" in os.environ:
        end_launcher()  # it would ask the same store, and wait for the answer
    return heard[0]


def _join(device: str, timeout: float, stop: StopRequest) -> Ranks:
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    where = _device(device, local_rank)
    if world_size == 1:
        return Ranks(0, 1, where, stop=stop, timeout=timeout)
    # Small host-side values go by gloo even where gradients go by nccl: nothing waits for the GPU.
    backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
    patience = timedelta(seconds=timeout + ANSWER)  # a rank that waits for data speaks first
    store, rank, world_size = next(iter(dist.rendezvous("env://", timeout=patience)))
    # After a restart by torchrun the addresses of the processes before are in the same store.
    store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=world_size, timeout=patience
    )
    watchdog = Watchdog(store, rank, world_size)
    return Ranks(rank, world_size, where, store, stop, watchdog, timeout)


def _device(name: str, local_rank: int) -> torch.device:
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    here = torch.cuda.device_count()
    if here == 0:
        raise InputError(
            "device is cuda but torch sees no GPU; set train.device=cpu, in eval.py device=cpu"
        )
    if local_rank >= here:
        raise InputError(
            f"this machine has {here} GPUs but rank {local_rank} of this machine needs one of its "
            f"own; start at most {here} processes, or set the device to cpu"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def make_deterministic() -> None:
    """Let this process compute the same bits every time; called before it has used a GPU."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it once
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def autocast(amp: str, device: torch.device) -> torch.autocast:
    """The precision of forward passes: ``auto`` is bf16 on GPUs that have it, else full."""
    on = amp == "bf16" or (
        amp == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    )
    return torch.autocast(device.type, torch.bfloat16, enabled=on)
