"""What packing saves where lengths vary as in videos, instructions, web text, speech, proteins.

    python -m experiments.length_variance                       # 20 s on one CPU core
    python -m experiments.length_variance --lengths FILE.csv    # your own, as `bload table` reads

Nothing is trained: each loader plans an epoch, a rank takes the slots of one longest sequence per
step, and slots are counted. `times fewer` is the slots that all ranks compute or wait for with
naive padding, divided by the loader's; `imbalance` the slots of a step's fullest rank over the
mean. Beside them the closed form: T_max / mean is what no padding at all would give.

How much lengths vary gives a floor alone: for any lengths T_max / mean is at least 1 + cv^2, where
cv is their standard deviation over their mean (Bhatia and Davis, A better bound on the variance,
2000). Action Genome's lengths are its own; the others are drawn from published quantiles, with
sources in experiments/length_laws.py, whole and cut as training often cuts them. T_max is the
longest drawn, which grows with their number where the tail is long. The rows
are in runs/length_variance/length_variance.json; the figures to expect in
results/length_variance.txt.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from bload import PACKERS, InputError, action_genome_lengths, deal, read_lengths
from bload.table import sized_plan
from experiments.length_laws import LAWS
from experiments.measured import measure

FULL: dict[str, Any] = {"lengths": [""], "sequences": 10_000, "ranks": 8, "seeds": 5}
QUICK = {"sequences": 1000, "seeds": 2}
TEXTS = {
    "lengths": "files of lengths; none takes Action Genome's and the published laws",
    "sequences": "drawn from each law, the longest of which is T_max",
    "ranks": "that share an epoch",
    "seeds": "draws of lengths and plans, from 0",
}
CUT = ", cut"
"""Marks lengths cut as training often cuts them."""
DOUBLE = "t_max=2x"
"""Marks blocks of twice the longest, in which sequences of more than half of it find partners."""
COLUMNS = ("loader", "padding", "deleted", "times_fewer", "imbalance")
"""What is printed of a row."""


def run(lengths: list[str], sequences: int, ranks: int, seeds: int) -> dict[str, Any]:
    """Count every row, print a table for each kind of lengths and return the rows.

    `TEXTS` says what the arguments are. Raises `InputError` if one is out of range.
    """
    if min(sequences, ranks, seeds) < 1:
        raise InputError("--sequences, --ranks or --seeds is less than 1; give at least 1")
    rows = []
    for kind, draws in _kinds([one for one in lengths if one], sequences, seeds):
        facts = _facts(draws)
        print(
            f"{kind}: {facts['sequences']:,} sequences, mean {facts['mean']:,.1f}, cv "
            f"{facts['cv']:.2f}, T_max {facts['t_max']:,.0f}, {facts['over_half']:.1%} longer than "
            f"half of it; T_max / mean {facts['closed_form']:.2f}, "
            f"1 + cv^2 {1 + facts['cv'] ** 2:.2f}"
        )
        mine = _rows(draws, ranks)
        shown = [{key: np.mean(row[key]) for key in COLUMNS[1:]} for row in mine]
        cells = [[row["loader"], *one.values()] for row, one in zip(mine, shown, strict=True)]
        heads = [name.replace("_", " ") for name in COLUMNS]
        print(tabulate(cells, heads, floatfmt=("", ",.0f", ",.0f", ".2f", ".3f")), flush=True)
        print()
        rows += [{"lengths": kind, **facts, **row} for row in mine]
    sources = {} if any(lengths) else {kind: law.about for kind, law in LAWS.items()}
    return {"sources": sources, "rows": rows}


def _kinds(files: list[str], sequences: int, seeds: int) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Every kind of lengths: its name, and its lengths for each seed."""
    own = {file: read_lengths(Path(file)) for file in files}
    for kind, lengths in (own or {"videos": action_genome_lengths()}).items():
        yield kind, [lengths] * seeds
    for kind, law in {} if own else LAWS.items():
        draws = [law.draw(sequences, seed) for seed in range(seeds)]
        yield kind, draws
        yield kind + CUT, [np.minimum(lengths, law.cut) for lengths in draws]


def _facts(draws: list[np.ndarray]) -> dict[str, Any]:
    """What the lengths alone say, means over draws; T_max is the longest of a draw."""
    both = [(lengths, lengths.max()) for lengths in draws]

    def mean(values: list[float], digits: int) -> float:
        return round(float(np.mean(values)), digits)

    return {
        "sequences": len(draws[0]),
        "t_max": mean([t_max for _, t_max in both], 1),
        "mean": mean([lengths.mean() for lengths in draws], 3),
        "cv": mean([lengths.std() / lengths.mean() for lengths in draws], 4),
        "over_half": mean([(2 * lengths > t_max).mean() for lengths, t_max in both], 4),
        "closed_form": mean([t_max / lengths.mean() for lengths, t_max in both], 4),
    }


def _rows(draws: list[np.ndarray], ranks: int) -> list[dict[str, Any]]:
    """A row for each loader: padded slots and deleted frames, means; the rest by seed."""
    rows, naive = [], np.zeros(len(draws))
    for loader, times in [*dict.fromkeys(PACKERS, 1).items(), ("bload_exact", 2)]:
        dealt = []
        for seed, lengths in enumerate(draws):
            size = times * int(lengths.max())
            plan = sized_plan(lengths, loader, size, None, "error", seed, 0, size)
            dealt.append(deal(plan, ranks, size))
        slots = np.array([ranks * one.loads().max(axis=1).sum() for one in dealt])
        naive = slots if loader == "naive" else naive
        rows.append(
            {
                "loader": loader if times == 1 else f"{loader} {DOUBLE}",
                "padding": float(np.mean([one.account.padding for one in dealt])),
                "deleted": float(np.mean([one.account.deleted for one in dealt])),
                "times_fewer": (naive / slots).round(4).tolist(),
                "imbalance": [round(one.imbalance(), 4) for one in dealt],
            }
        )
    return rows


def main() -> None:
    measure("length_variance", __doc__, run, FULL, QUICK, TEXTS)


if __name__ == "__main__":
    main()
