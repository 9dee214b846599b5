"""A training step of `dds_tiny` by temporal part.

The parts take turns. Operator calls are those that reach a kernel or make a view, forward and
backward.
"""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from experiments.benchmarks import Row, Table, make_job
from experiments.interleaved import Contender
from experiments.intervals import ratio
from models.temporal import TEMPORAL_PARTS
from training.step import backward

CODE = ("models", "bload/batch/walk.py", "bload/batch/walk_order.py", "training/step.py")
ROUNDS, STEPS = 6, 5


class CallCounter(TorchDispatchMode):
    """Counts by name the operators called within it, those of views too."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[str(func)] += 1
        return func(*args, **(kwargs or {}))


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each number of blocks and temporal part."""
    for blocks in (1,) if quick else (1, 4):
        yield from time_parts(quick, blocks)


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


STEP = {"blocks": ",.0f", "memory": "", "frames/s": ",.0f"}
STEP |= dict.fromkeys(("of the first", "from", "to"), ".2f")
TABLES = {
    "steps": Table(
        "Steps on one block or four, by temporal part:", STEP | {"operator calls": ",.0f"}
    ),
}
