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

from experiments.benchmarks import Row, Table, job
from experiments.benchmarks.loading import ALONE
from experiments.interleaved import Way
from experiments.intervals import ratio
from models.temporal import PARTS
from training.step import backward

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
        yield from _steps(quick, blocks)
    yield from _profile(quick)


def _steps(quick: bool, blocks: int) -> Iterator[Row]:
    size = f"train.batch_slots={94 * blocks}"
    ways = [Way(job(quick, size, f"model.temporal={part}"), ALONE) for part in PARTS]
    turns = [[way.take(STEPS) for way in ways] for _ in range(1 if quick else ROUNDS)]
    rates = [
        [sum(turn.frames) / sum(turn.seconds) for turn in mine] for mine in zip(*turns, strict=True)
    ]
    for part, way, mine in zip(PARTS, ways, rates, strict=True):
        with CallCounter() as counter:
            backward(way.training, next(iter(way.loader.by_step())), 0)
        row = {"table": "steps", "blocks": blocks, "memory": part, "frames/s": fmean(mine)}
        beside = ratio(mine, rates[0])
        row |= {"of the first": beside.mean, "from": beside.low, "to": beside.high}
        yield row | {"operator calls": counter.calls.total()}


def _profile(quick: bool) -> Iterator[Row]:
    """Yield the calls that take the most time by themselves, and all others together."""
    way = Way(job(quick), ALONE)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        way.take(1 if quick else PROFILED)
    calls = sorted(found.key_averages(), key=lambda call: -call.self_cpu_time_total)
    micros = {f"`{call.key}`": call.self_cpu_time_total for call in calls[:SHOWN]}
    micros[f"{len(calls) - SHOWN} others"] = sum(of.self_cpu_time_total for of in calls[SHOWN:])
    for name, spent in micros.items():
        yield {"table": "profile", "calls": name, "share, %": 100 * spent / sum(micros.values())}


STEP = {"blocks": ",.0f", "memory": "", "frames/s": ",.0f"}
STEP |= dict.fromkeys(("of the first", "from", "to"), ".2f")
TABLES = {
    "steps": Table("Steps on one block or four, by memory:", STEP | {"operator calls": ",.0f"}),
    "profile": Table("Where the time of `dds` goes:", {"calls": "", "share, %": ".1f"}),
}
