"""A question that the paper leaves open: lengths that vary by orders of magnitude.

Sequences of 1 to 1,000 and of 1 to 10,000 frames under all five loaders: what is padded, what
deleted, how long planning takes, and how long a small GRU on feature sequences takes for an epoch.
For the widest spread also blocks shorter than the longest sequence (``long=split``).

A recurrent step walks the slots of its blocks one after another and does the rows of one slot at
once. So at equal ``T_max`` time follows the slots that are processed; shorter blocks, with as many
slots a step in more rows, are faster a slot.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bload.errors import InputError
from bload.loader import BlockLoader
from bload.packers import PACKERS, make_plan
from experiments.provenance import now
from experiments.sequences import FeatureSequences, RecurrentClassifier, train_step
from experiments.shapes import SHAPES


@dataclass(frozen=True)
class Row:
    """One loader on one distribution. frames - deleted + padding + filler = processed."""

    longest: int
    shape: str
    loader: str
    t_max: int
    sequences: int
    frames: int
    padding: int
    deleted: int
    filler: int
    """Slots of the empty blocks that fill the last step."""
    processed: int
    """Slots worked through in the epoch."""
    segments: int
    """Pieces that sequences stand in; more than sequences where they are split."""
    blocks: int
    lower_bound_padding: int
    steps: int
    batch_frames: int
    plan_seconds: float
    epoch_seconds: float
    epoch_cpu_seconds: float
    """Of this process, which other jobs of the machine disturb less."""


def run(
    folder: Path,
    record: dict[str, Any],
    *,
    longest: Sequence[int] = (1_000, 10_000),
    sequences: Sequence[int] = (2_000, 320),
    rows: Sequence[int] = (32, 16),
    parts: Sequence[int] = (2, 5, 20),
    seed: int = 0,
) -> bool:
    """Print the table and write ``length_variance.json``.

    Args:
        record: written besides the rows, with "ended".
        longest, sequences, rows: of each spread, the longest length, how many sequences, and how
            many blocks of the longest a step holds.
        parts: for the last spread, ``T_max`` = longest / parts.

    Raises:
        InputError: an option is out of range.
    """
    if not len(longest) == len(sequences) == len(rows) > 0:
        raise InputError(
            f"experiment.longest has {len(longest)}, sequences {len(sequences)} and rows "
            f"{len(rows)} entries; give as many of each"
        )
    for name, values in {"longest": longest, "sequences": sequences, "rows": rows}.items():
        if min(values) < 1:
            raise InputError(f"experiment.{name} holds {min(values)}; give at least 1")
    if any(not 1 <= part <= longest[-1] for part in parts):
        raise InputError(f"experiment.parts is {list(parts)}; give 1 to {longest[-1]}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a recurrent step is a chain of small operations
    try:
        done = _all(longest, sequences, rows, parts, seed)
    finally:
        torch.set_num_threads(threads)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "length_variance.json"
    content = {
        **record,
        "ended": now(),
        "rows": [asdict(row) for row in done],
        "seed": seed,
        "threads": 1,
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    print(f"\nWritten to {path}")
    return True


def _all(
    longest: Sequence[int],
    sequences: Sequence[int],
    rows: Sequence[int],
    parts: Sequence[int],
    seed: int,
) -> list[Row]:
    """Measure and print every row."""
    done = []
    _train_once()
    for most, count, wide in zip(longest, sequences, rows, strict=True):
        for shape, draw in SHAPES.items():
            lengths = draw(count, most, np.random.default_rng([seed, most]))
            print(
                f"\n{shape}, 1 to {most:,}: {count:,} sequences, {lengths.sum():,} frames, "
                f"median {np.median(lengths):,.0f}, mean {lengths.mean():,.0f}; "
                f"{wide * most:,} slots a step\n{HEADER}",
                flush=True,
            )
            jobs = [(loader, None, {}) for loader in PACKERS]
            if most == longest[-1]:
                jobs += [("bload", -(-most // part), {"long": "split"}) for part in parts]
            for row in _measure(jobs, lengths, shape, wide * most, seed):
                done.append(row)
                print(_line(row), flush=True)
    return done


def _measure(
    jobs: list[tuple[str, int | None, dict]],
    lengths: np.ndarray,
    shape: str,
    batch_frames: int,
    seed: int,
) -> Iterator[Row]:
    source = FeatureSequences(lengths, seed)
    for name, t_max, options in jobs:
        began = time.perf_counter()
        plan = make_plan(lengths, name, t_max, seed, **options)
        plan_seconds = time.perf_counter() - began
        loader = BlockLoader(
            source, name, batch_frames=batch_frames, t_max=t_max, seed=seed, **options
        )
        account = loader.account
        seconds, cpu_seconds = _epoch_seconds(loader)
        yield Row(
            longest=int(lengths.max()),
            shape=shape,
            loader=name,
            t_max=plan.t_max,
            sequences=plan.sequences,
            frames=plan.frames,
            padding=account.padding,
            deleted=account.deleted,
            filler=account.filler,
            processed=account.processed,
            segments=plan.segments,
            blocks=plan.blocks,
            lower_bound_padding=plan.lower_bound_padding,
            steps=account.steps,
            batch_frames=loader.sampler.blocks_per_rank * plan.t_max,
            plan_seconds=round(plan_seconds, 4),
            epoch_seconds=round(seconds, 3),
            epoch_cpu_seconds=round(cpu_seconds, 3),
        )


def _epoch_seconds(loader: BlockLoader) -> tuple[float, float]:
    """Seconds of one epoch, on the clock and of the processor."""
    torch.manual_seed(0)
    model = RecurrentClassifier()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    began = time.perf_counter(), time.process_time()
    for batch in loader:
        train_step(model, optimiser, batch)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def _train_once() -> None:
    """The first step of a process pays for what PyTorch loads and allocates; take it now."""
    _epoch_seconds(BlockLoader(FeatureSequences(np.array([8, 8])), "naive", batch_frames=16))


HEADER = (
    f"{'loader':<13}{'T_max':>7}{'blocks':>8}{'pieces':>8}{'padding':>12}{'at least':>10}"
    f"{'deleted':>11}{'filler':>9}{'processed':>12}{'plan s':>9}{'epoch s':>9}{'CPU s':>8}"
    f"{'us a slot':>11}"
)


def _line(row: Row) -> str:
    return (
        f"{row.loader:<13}{row.t_max:>7,}{row.blocks:>8,}{row.segments:>8,}{row.padding:>12,}"
        f"{row.lower_bound_padding:>10,}{row.deleted:>11,}{row.filler:>9,}{row.processed:>12,}"
        f"{row.plan_seconds:>9.3f}{row.epoch_seconds:>9.1f}{row.epoch_cpu_seconds:>8.1f}"
        f"{1e6 * row.epoch_cpu_seconds / row.processed:>11.1f}"
    )
