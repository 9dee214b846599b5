"""A question that the paper leaves open: lengths that vary by orders of magnitude.

    python -m experiments.length_variance            # 4 minutes on one CPU core, 3 for naive
    python -m experiments.length_variance --quick    # lengths of 1 to 100 and 1 to 1,000: 30 s

Sequences of 1 to 1,000 and of 1 to 10,000 frames under all five loaders: what is padded, what is
deleted, how long planning takes, and how long a small GRU on feature sequences takes for an epoch.
For the widest spread also blocks shorter than the longest sequence (``long=split``). The figures to
expect, all but the seconds to the last digit, are in results/length_variance.txt. The rows are
written to runs/length_variance/length_variance.json.

A recurrent step walks the slots of its blocks one after another and does the rows of one slot at
once. So at equal ``T_max`` time follows the slots that are processed; shorter blocks, with as many
slots per step in more rows, are faster per slot.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from tabulate import tabulate

from bload import PACKERS, BlockLoader, InputError, make_plan
from bload.packers import makes_batches
from experiments.measured import measure
from experiments.sequences import FeatureSequences, new_classifier, train_on, warm_up

FULL = {
    "longest": [1_000, 10_000],
    "sequences": [2_000, 320],
    "rows": [32, 16],
    "parts": [2, 5, 20],
    "seed": 0,
}
QUICK = {"longest": [100, 1_000], "sequences": [1_000, 200], "rows": [32, 8]}
TEXTS = {
    "longest": "longest length of each spread",
    "sequences": "how many, for each spread",
    "rows": "blocks of the longest in a step, for each spread",
    "parts": "T_max = longest / part, for the last spread",
    "seed": "of lengths and plans",
}
COLUMNS = (
    *("loader", "t_max", "blocks", "segments", "padding", "lower_bound_padding", "deleted"),
    *("filler", "processed", "plan_seconds", "epoch_seconds", "epoch_cpu_seconds"),
)
"""What is printed of a row."""


def run(
    longest: Sequence[int],
    sequences: Sequence[int],
    rows: Sequence[int],
    parts: Sequence[int],
    seed: int,
) -> dict[str, Any]:
    """Measure every row, print a table for each distribution and return the rows.

    `TEXTS` says what the arguments are. Raises `InputError` if one is out of range.
    """
    if not len(longest) == len(sequences) == len(rows) > 0:
        raise InputError(
            f"--longest has {len(longest)}, --sequences {len(sequences)} and --rows {len(rows)} "
            "entries; give as many of each"
        )
    if min(*longest, *sequences, *rows) < 1:
        raise InputError("--longest, --sequences or --rows holds less than 1; give at least 1")
    if any(not 1 <= part <= longest[-1] for part in parts):
        raise InputError(f"--parts is {list(parts)}; give 1 to {longest[-1]}")
    torch.set_num_threads(1)  # a recurrent step is a chain of small operations
    warm_up()
    done = []
    for most, count, wide in zip(longest, sequences, rows, strict=True):
        for shape in SHAPES:
            lengths = draw(shape, count, most, np.random.default_rng([seed, most]))
            print(
                f"\n{shape}, 1 to {most:,}: {count:,} sequences, {lengths.sum():,} frames, "
                f"median {np.median(lengths):,.0f}, mean {lengths.mean():,.0f}; "
                f"{wide * most:,} slots per step",
                flush=True,
            )
            names = [name for name in PACKERS if not makes_batches(name)]
            jobs: list[dict[str, Any]] = [{"name": name, "t_max": None} for name in names]
            if most == longest[-1]:
                sizes = [-(-most // part) for part in parts]
                jobs += [{"name": "bload", "t_max": size, "long": "split"} for size in sizes]
            spread = {"longest": most, "shape": shape}
            measured = [spread | _measure(lengths, wide * most, seed, **job) for job in jobs]
            print(_table(measured), flush=True)
            done += measured
    return {"rows": done, "threads": 1}


def log_uniform(count: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Draw as many lengths of 1 to 10 as of 10 to 100 as of 100 to 1,000 frames."""
    return np.exp(rng.uniform(0, np.log(longest + 1), count))


def log_normal(count: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Draw lengths around a twentieth of the longest, with the heavy tail of recordings and texts.

    Median longest / 20 and sigma 1; one in seven hundred is cut to the longest.
    """
    return rng.lognormal(np.log(longest / 20), 1, count)


SHAPES = {"log-uniform": log_uniform, "log-normal": log_normal}
"""Name -> distribution, a function ``(count, longest, rng) -> lengths`` before rounding."""


def draw(shape: str, count: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Draw whole lengths; one sequence always has the longest length, the natural ``T_max``."""
    lengths = np.clip(SHAPES[shape](count, longest, rng), 1, longest).astype(np.int64)
    lengths[0] = longest
    return lengths


def _measure(
    lengths: np.ndarray, batch_frames: int, seed: int, name: str, t_max: int | None, **options: Any
) -> dict[str, Any]:
    """Measure one loader on one distribution. frames - deleted + padding + filler = processed."""
    began = time.perf_counter()
    plan = make_plan(lengths, name, t_max, seed, **options)
    plan_seconds = time.perf_counter() - began
    source = FeatureSequences(lengths, seed)
    loader = BlockLoader(source, name, batch_frames=batch_frames, t_max=t_max, seed=seed, **options)
    model, optimiser = new_classifier()
    began, cpu_began = time.perf_counter(), time.process_time()
    for batch in loader:
        train_on(model, optimiser, batch)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    counts = ("padding", "deleted", "filler", "processed", "steps")
    return {
        "loader": name,
        "t_max": plan.t_max,
        "sequences": plan.sequences,
        "frames": plan.frames,
        "segments": plan.segments,  # more than sequences where they are split
        "blocks": plan.blocks,
        "lower_bound_padding": plan.lower_bound_padding,
        **{key: getattr(loader.account, key) for key in counts},
        "batch_frames": loader.sampler.blocks_per_batch * plan.t_max,
        "plan_seconds": round(plan_seconds, 4),
        "epoch_seconds": round(seconds, 3),
        "epoch_cpu_seconds": round(cpu_seconds, 3),  # which other jobs disturb less
    }


def _table(rows: list[dict[str, Any]]) -> str:
    found = pd.DataFrame(rows)
    found["us_per_slot"] = 1e6 * found.epoch_cpu_seconds / found.processed
    found = found[[*COLUMNS, "us_per_slot"]].rename(columns=lambda name: name.replace("_", "\n"))
    forms = ("", "", *[","] * 8, ".3f", ".1f", ".1f", ".1f")
    return tabulate(found, "keys", showindex=False, intfmt=",", floatfmt=forms)


def main() -> None:
    measure("length_variance", __doc__, run, FULL, QUICK, TEXTS)


if __name__ == "__main__":
    main()
