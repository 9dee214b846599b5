"""A training step of `dds_tiny` by temporal part, and where its time goes.

The parts take turns. Operator calls are those that reach a kernel or make a view, forward and
backward. The profile is torch's, which makes small calls dearer than they are.
"""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.benchmarks import Row, Table, make_job
from experiments.interleaved import Contender
from experiments.intervals import ratio
from models.temporal import TEMPORAL_PARTS
from training.step import backward

CODE = ("models", "bload/batch/walk.py", "bload/batch/walk_order.py", "training/step.py")
ROUNDS, STEPS, PROFILED, SHOWN = 6, 5, 20, 12


class CallCounter(TorchDispatchMode):
    """Counts by name the operators called within it, those of views too."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[str(func)] += 1
        return func(*args, **(kwargs or {}))


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of steps, and of the profile."""
    for blocks in (1,) if quick else (1, 4):
        yield from time_parts(quick, blocks)
    yield from profile_steps(quick)


def time_parts(quick: bool, blocks: int) -> Iterator[Row]:
    """Yield a row for each temporal part; the parts take turns."""
    size = {"batch_slots": 94 * blocks}
    parts = {
        part: Contender(make_job(quick, train=size, model={"temporal": part}))
        for part in TEMPORAL_PARTS
    }
    rates: dict[str, list[float]] = {part: [] for part in parts}
    for _ in range(1 if quick else ROUNDS):
        for part, contender in parts.items():
            rates[part].append(contender.take_steps(STEPS).frames_per_second)
    for part, contender in parts.items():
        with CallCounter() as counter:
            backward(contender.training, next(iter(contender.loader.by_step())), 0)
        row = {"table": "steps", "blocks": blocks, "memory": part, "frames/s": fmean(rates[part])}
        share = ratio(rates[part], rates[next(iter(parts))])
        row |= {"of the first": share.mean, "from": share.low, "to": share.high}
        yield row | {"operator calls": counter.calls.total()}


def profile_steps(quick: bool) -> Iterator[Row]:
    """Yield the calls that take the most time by themselves, and all others together."""
    contender = Contender(make_job(quick))
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        contender.take_steps(1 if quick else PROFILED)
    calls = sorted(profiler.key_averages(), key=lambda call: -call.self_cpu_time_total)
    micros = {f"`{call.key}`": call.self_cpu_time_total for call in calls[:SHOWN]}
    other_micros = sum(call.self_cpu_time_total for call in calls[SHOWN:])
    micros[f"{len(calls) - SHOWN} others"] = other_micros
    for name, spent in micros.items():
        yield {"table": "profile", "calls": name, "share, %": 100 * spent / sum(micros.values())}


STEP = {"blocks": ",.0f", "memory": "", "frames/s": ",.0f"}
STEP |= dict.fromkeys(("of the first", "from", "to"), ".2f")
TABLES = {
    "steps": Table(
        "Steps on one block or four, by temporal part:", STEP | {"operator calls": ",.0f"}
    ),
    "profile": Table("Where the time of `dds` goes:", {"calls": "", "share, %": ".1f"}),
}
