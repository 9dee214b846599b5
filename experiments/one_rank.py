"""The loaders on one rank, on 1,000 videos: at equal epochs and equal work, one and four per step.

    python train.py experiment=one_rank                     # and one_rank_work, _one, _four
    python -m experiments.one_rank [FOLDER]

Tables as in `experiments.paper_table` (dev/LOG.md, "The headline, again").
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.paper_table import name_left_out, recall_table, runs_by_table, split_ways
from experiments.runs import read_curves, read_runs
from experiments.study import colour_of, report_runs


def tables(folder: Path) -> str:
    """Tabulate Recall@20 of every comparison that the folder has runs for."""
    parts = runs_by_table(runs := read_runs(folder))
    chart = "![Recall@20 at equal epochs, and at equal work](../charts/one_rank.svg)"
    tables = (recall_table(part, title) for title, part in parts.items())
    return "\n\n".join([chart, *tables]) + name_left_out(runs, parts)


def draw(folder: Path, figure: Figure) -> None:
    """Draw equal epochs by epoch, equal work by slots: means of seeds, lowest to highest."""
    parts = runs_by_table(read_runs(folder))
    curves = read_curves(folder).dropna(subset="recall")
    curves["thousand slots"] = curves.processed / 1000
    axes = figure.subplots(1, 2, sharey=True)
    axes[0].set_ylabel("Recall@20, %")
    panels = (("equal epochs", "epoch"), ("equal work", "thousand slots"))
    for axis, (title, unit) in zip(axes, panels, strict=True):
        runs = parts.get(title, pd.DataFrame(columns=parts["equal epochs"].columns))
        for name, seeds in split_ways(runs):
            points = curves[curves.run.isin(seeds.run)].groupby("epoch")
            x, y, colour = points[unit].mean(), points.recall, colour_of(name)
            look = "o--" if "clips=all" in name else "o-"
            axis.plot(x, y.mean(), look, ms=4, color=colour, label=name)
            axis.fill_between(x, y.min(), y.max(), color=colour, alpha=0.15, lw=0)
            if name == "naive" and unit != "epoch":
                words = "1 epoch" if len(x) == 1 else f"{len(x)} epochs"
                below = y.mean().iloc[-1] - 6
                axis.text(x.iloc[-1], below, words, color=colour, ha="center", va="top")
                axis.margins(x=0.2)  # room for the words
        axis.set(xlabel=unit, title=title, ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))


if __name__ == "__main__":
    title = "Packing beats sampling at equal epochs, not at equal work"
    report_runs("one_rank", __doc__, tables, draw, title=title)
