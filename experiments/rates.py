"""Rates: which learning rate does each loader of the comparison train with?

    torchrun --nproc_per_node=2 train.py experiment=paper_table run.root=runs/rates \\
        train.seed=0 train.lr=0.00075,0.0015,0.003
    python -m experiments.rates [FOLDER]

Half, one and twice the default by Recall@20 on the validation videos, mean of the seeds. The
default stays unless another is better by a point; if the choice is at an edge, the next factor of
two outward is tried too (dev/LOG.md, "The headline, again", "The paper's table under DDP").
"""

from pathlib import Path

import pandas as pd

from bload.errors import InputError
from experiments.runs import read_runs
from experiments.study import markdown, report_runs

DEFAULT, MARGIN = 0.0015, 1.0


def choose(recall: pd.Series) -> float:
    """Return the rate with the highest Recall@20 of those tried, if it is better by `MARGIN`."""
    best = float(recall.idxmax())
    return DEFAULT if recall[best] < recall.get(DEFAULT, -MARGIN) + MARGIN else best


def validation_recall(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean Recall@20 on validation videos, in percent: a row per way, a column per rate."""
    if "validation_recall@20" not in runs:
        raise InputError("these runs were not read on validation videos")
    runs = runs.assign(step=runs["train.batch_slots"] * runs["train.micro_batches"] * runs.ranks)
    keys = {"loader": "loader.name", "clips": "loader.clips", "videos": "dataset.train_videos"}
    keys |= {"ranks": "ranks", "slots per step": "step", "epochs": "epochs"}
    ways = (
        runs.reindex(columns=[*keys.values()]).astype(object).fillna("").set_axis([*keys], axis=1)
    )
    groups = [*(ways[key] for key in keys), runs["train.lr"]]
    return 100 * runs["validation_recall@20"].groupby(groups, sort=False).mean().unstack()


def tables(folder: Path) -> str:
    """Tabulate Recall@20 on validation videos by rate, and the choice."""
    table = validation_recall(read_runs(folder)).sort_index(axis=1)
    rows = []
    for way, recall in table.iterrows():
        cells = (f"{value:.1f}" if value == value else "" for value in recall)
        rows.append([*map(str, way), *cells, f"{choose(recall):g}"])
    heads = [*table.index.names, *(f"{rate:g}" for rate in table), "chosen"]
    return markdown(rows, heads, words=2)


if __name__ == "__main__":
    report_runs("rates", __doc__, tables)
