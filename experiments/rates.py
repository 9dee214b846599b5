"""Rates: which learning rate does each loader of the comparison train with?

    torchrun --nproc_per_node=2 train.py experiment=paper_table run.root=runs/rates \\
        train.seed=0 train.lr=0.00075,0.0015,0.003
    python -m experiments.rates [FOLDER]

Half, one and twice the default by Recall@20 on the validation videos, mean of the seeds
that have all its rates. The default stays unless another is better by a point; if the choice is at
an edge, the next factor of two outward is tried too (dev/LOG.md, "The headline, again", "The
paper's table under DDP").
"""

from pathlib import Path

import pandas as pd

from bload.errors import InputError
from experiments.runs import read_runs, refuse_mixtures
from experiments.study import markdown, report_runs

DEFAULT, MARGIN, SEED = 0.0015, 1.0, "train.seed"


def choose(recall: pd.Series) -> float:
    """Return the rate with the highest Recall@20 of those tried, if it is better by `MARGIN`."""
    best = float(recall.idxmax())
    return DEFAULT if recall[best] < recall.get(DEFAULT, -MARGIN) + MARGIN else best


def validation_recall(runs: pd.DataFrame) -> pd.DataFrame:
    """Return Recall@20 on validation videos, by rate: a row per way and seed, in percent."""
    if "validation_recall@20" not in runs:
        raise InputError("these runs were not read on validation videos")
    keys = {"loader": "loader.name", "clips": "loader.clips", "videos": "dataset.train_videos"}
    keys |= {"ranks": "ranks", "slots per step": "step_slots", "epochs": "epochs"}
    columns = [*keys.values()]
    runs = runs.assign(**runs.reindex(columns=columns).astype(object).fillna(""))
    runs = refuse_mixtures(runs, *columns, "train.lr")
    each = runs.groupby([*columns, SEED, "train.lr"], sort=False)["validation_recall@20"].first()
    return 100 * each.unstack().rename_axis([*keys, SEED])


def tables(folder: Path) -> str:
    """Tabulate Recall@20 on validation videos by rate, and the choice."""
    table = validation_recall(read_runs(folder)).sort_index(axis=1)
    rows, ways = [], table.index.names[:-1]
    for way, seeds in table.groupby(ways, sort=False):
        whole = seeds.dropna(axis=1, how="all").dropna()
        recall = whole.mean().reindex(table.columns)
        cells = (f"{value:.1f}" if value == value else "" for value in recall)
        chosen = f"{choose(recall):g}" if recall.notna().any() else ""
        chosen += f" ({len(whole)} of {len(seeds)} seeds)" if len(whole) < len(seeds) else ""
        rows.append([*map(str, way), *cells, chosen])
    heads = [*ways, *(f"{rate:g}" for rate in table), "chosen"]
    return markdown(rows, heads, words=2)


if __name__ == "__main__":
    report_runs("rates", __doc__, tables)
