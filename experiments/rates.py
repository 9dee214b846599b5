"""Rates: which learning rate does each loader of the comparison train with?

    python train.py experiment=one_rank run.root=runs/rates loader=sampling train.seed=0,1 \\
        train.lr=0.003
    python -m experiments.rates [FOLDER]

Half, one and twice the default, for all three rates alike, by Recall@20 on the validation videos,
mean of seeds 0 and 1. The default stays unless another is better by a point; if the choice is at an
edge, the next factor of two outward is tried too (dev/LOG.md, "The headline, again").
"""

from pathlib import Path

import pandas as pd

from experiments.runs import read_runs
from experiments.study import markdown, report_runs

DEFAULT, MARGIN = 0.0015, 1.0
WAY = ["loader.name", "loader.clips", "train.batch_slots", "train.slots"]
"""Columns that a rate is chosen for; `train.slots` is that of runs at equal work."""


def choose(recall: pd.Series) -> float:
    """Return the rate with the highest Recall@20 of those tried, if it is better by `MARGIN`."""
    best = float(recall.idxmax())
    return best if recall[best] >= recall[DEFAULT] + MARGIN else DEFAULT


def validation_recall(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean Recall@20 on validation videos, in percent: a row per way, a column per rate."""
    ways = runs.reindex(columns=WAY).astype(object).fillna("")
    keys = [*(ways[key] for key in WAY), runs["train.lr"]]
    return 100 * runs["validation_recall@20"].groupby(keys, sort=False).mean().unstack()


def tables(folder: Path) -> str:
    """Tabulate Recall@20 on validation videos by rate, and the choice."""
    table = validation_recall(read_runs(folder)).sort_index(axis=1)
    rows = []
    for way, recall in table.iterrows():
        cells = (f"{value:.1f}" if value == value else "" for value in recall)
        names = (f"{key:.0f}" if isinstance(key, float) else str(key) for key in way)
        rows.append([*names, *cells, f"{choose(recall):g}"])
    return markdown(rows, [*WAY, *(f"{rate:g}" for rate in table), "chosen"], words=4)


if __name__ == "__main__":
    report_runs("rates", __doc__, tables)
