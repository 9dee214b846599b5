"""Lengths of other data: what does packing save if lengths vary in other ways than in videos?

    python -m experiments.lengths    # 20 s on one core; `bload table FILE` counts your own

Nothing is trained: each loader plans an epoch, and slots are counted, also those for which ranks
wait. Sources of the laws are in lengths.json. Nothing was predicted.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bload import PACKERS, action_genome_lengths
from bload.schedule.balance import make_schedule
from bload.table import sized_plan
from datasets.files import exit_on_input_error
from experiments import study

SEQUENCES, RANKS, DRAWS = 10_000, 8, 5
CUT, DOUBLE = ", cut", "bload_exact, 2x"
"""Ending of the name of cut lengths; name of blocks of twice the longest."""
LESS = "naive's padding over `bload`'s"
PACKED, BATCHES = ("bload", "bload_exact", DOUBLE), ("ragged", "bucket", "single")

LAWS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text())
"""Published distributions of lengths.

Either `percent` has, for each of the `lengths`, the percentage of sequences that have at most this
length, or `counts` the number between two of them. Training often cuts sequences to `cut`.
"""


def percentages(law: dict[str, Any]) -> np.ndarray:
    """Return the percentages, 0 to 100, of the sequences that have at most the law's lengths."""
    counts = [0, *law.get("counts", [])]
    return np.array(law.get("percent") or 100 * np.cumsum(counts) / sum(counts))


def quantiles(law: dict[str, Any], share: np.ndarray) -> np.ndarray:
    """Return the lengths that these shares of the sequences, 0 to 1, do not exceed, int64.

    Between two known lengths the logarithm grows evenly. With a `tail`, lengths between the last
    two follow a Pareto law of this exponent.
    """
    shares = percentages(law) / 100
    lengths = np.exp(np.interp(share, shares, np.log(law["lengths"])))
    if tail := law.get("tail"):
        low, high = law["lengths"][-2:]
        beyond = np.clip((share - shares[-2]) / (1 - shares[-2]), 0, 1)
        pareto = low * (1 - beyond * (1 - (low / high) ** tail)) ** (-1 / tail)
        lengths = np.where(share > shares[-2], pareto, lengths)
    return np.maximum(lengths.round(), 1).astype(np.int64)


def kinds() -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield every kind of lengths: its name, and the lengths of each draw."""
    yield "videos", [action_genome_lengths()] * DRAWS
    for name, law in LAWS.items():
        shares = [np.random.default_rng(seed).random(SEQUENCES) for seed in range(DRAWS)]
        draws = [quantiles(law, share) for share in shares]
        yield name, draws
        yield name + CUT, [np.minimum(lengths, law["cut"]) for lengths in draws]


def count(kind: str, draws: Sequence[np.ndarray]) -> pd.DataFrame:
    """Count a row for each loader and draw; `times` is naive's slots over the loader's."""
    rows = []
    for seed, lengths in enumerate(draws):
        longest, mean, naive = int(lengths.max()), lengths.mean(), 0
        for loader in (*PACKERS, DOUBLE):
            size = 2 * longest if loader == DOUBLE else longest
            packer = "bload_exact" if loader == DOUBLE else loader
            plan = sized_plan(lengths, packer, size, "error", seed, 0, size)
            schedule = make_schedule(plan, RANKS, size)
            slots = RANKS * int(schedule.loads().max(axis=1).sum())
            naive = naive or slots  # the first of all
            row = {"kind": kind, "loader": loader, "t_max": longest}
            row |= {"padding": plan.padding, "cv": lengths.std() / mean, "closed": longest / mean}
            rows.append(row | {"times": naive / slots, "imbalance": schedule.imbalance()})
    return pd.DataFrame(rows)


def tables(rows: pd.DataFrame) -> str:
    """Tabulate times fewer slots, and times less padding, than naive padding; means of draws."""
    saved = []
    for kind, draws in rows.groupby("kind", sort=False):
        mean = draws.groupby("loader").mean(numeric_only=True)
        naive = mean.loc["naive"]
        row = [kind, f"{naive.t_max:,.0f}", f"{naive.cv:.2f}", f"{naive.closed:#.3g}"]
        row += [f"{mean.times[loader]:#.3g}" for loader in PACKED]
        less = naive.padding / mean.padding["bload"]
        row.append(f"{less:,.0f}" if less < np.inf else "")
        saved.append([*row, *(f"{mean.times[n]:#.3g} ({mean.imbalance[n]:.2f})" for n in BATCHES)])
    return study.markdown(saved, ["", "`T_max`", "cv", "`T_max` / mean", *PACKED, LESS, *BATCHES])


@exit_on_input_error()
def main() -> None:
    study.make_parser("lengths", __doc__).parse_args()
    rows = pd.concat([count(kind, draws) for kind, draws in kinds()])
    study.publish("lengths", tables(rows), committed=True)


if __name__ == "__main__":
    main()
