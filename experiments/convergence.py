"""Long training: where does each loader end, and how much work does it take to get there?

    python train.py experiment=convergence                  # and the other in its file
    python -m experiments.convergence [FOLDER]

Predicted: `bload` ends level with `naive`, `sampling` ends below, and `naive` takes over 3 times
the work of `bload` to the common level, 90 % of naive's mean end (dev/LOG.md, "How far training
goes under each loader: the plan, written before any run").
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from bload import InputError
from bload.packing.packers import PACKERS
from experiments.intervals import ratio, signed, t_interval
from experiments.runs import name_splits, name_ways, read_curves, read_runs, refuse_mixtures
from experiments.study import colour_of, markdown, name_missing, name_way, report_runs

LOADER, SEED = "loader.name", "train.seed"
WAYS = [*PACKERS, name_way("sampling", "all")]
SHARE = 0.9
"""The common level, as a share of where `naive` ends."""


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the runs, and the points of their curves with a known Recall@20."""
    runs = read_runs(folder)
    runs = refuse_mixtures(runs.assign(**{LOADER: name_ways(runs)}), LOADER)
    curves = read_curves(folder).dropna(subset="recall")
    if curves.empty:
        raise InputError(f"{folder} has no evaluation; give its runs train.eval_every")
    return runs, curves.merge(runs[["run", LOADER, SEED]], on="run")


def by_seed(curves: pd.DataFrame, figure: Callable[[pd.DataFrame], float]) -> pd.DataFrame:
    """Compute a figure of each curve: a row per seed, a column per way; NaN without a run."""
    groups = curves.groupby([SEED, LOADER])
    figures = {key: figure(curve) for key, curve in groups}
    return pd.Series(figures).unstack().reindex(columns=WAYS)


def work_to(curve: pd.DataFrame, level: float, key: str = "processed") -> float:
    """Return the slots, or sums `key`, at which Recall@20 first reaches a level; NaN: never.

    Recall@20 is interpolated linearly between evaluations.
    """
    reached = np.flatnonzero(curve.recall >= level)
    if not len(reached):
        return math.nan
    ends = slice(reached[0], reached[0] + 2)  # of what begins at 0
    return float(np.interp(level, [0, *curve.recall][ends], [0, *curve[key]][ends]))


def tables(folder: Path) -> str:
    """Tabulate where each loader ends, the work to get there, and differences by seed."""
    runs, curves = read(folder)
    work = runs.groupby(LOADER)[["all_steps", "slots"]].mean()
    ends = by_seed(curves, lambda curve: float(curve.recall.iloc[-1]))
    level = SHARE * ends.naive.mean()
    slots = by_seed(curves, partial(work_to, level=level))
    frames = by_seed(curves, partial(work_to, level=level, key="frames"))
    reached, spent = [], []
    for loader in ends.dropna(axis=1, how="all"):
        difference = "" if loader == "naive" else signed(ends[loader] - ends.naive)
        counts = [f"{count:,.0f}" for count in work.loc[loader]]
        reached.append([loader, *counts, t_interval(ends[loader]).text(), difference])
        shares = [ratio(table[loader], table.naive).text(2) for table in (slots, frames)]
        shares = ["1", "1"] if loader == "naive" else shares
        spent.append([loader, t_interval(slots[loader]).text(0), *shares])
    more_work = ratio(slots.naive, slots.bload).text()
    predicted = [
        ["`bload` ends level with `naive`, points", signed(ends.bload - ends.naive)],
        ["`sampling` ends below `bload`, points", signed(ends.sampling - ends.bload)],
        ["to the common level `naive` takes over 3 times the slots of `bload`", more_work],
    ]
    known = runs.reindex(columns=["validation_recall@20"]).notna().any(axis=1)
    videos = name_splits(runs.assign(split=runs.split.mask(known, "validation")))  # those of curves
    heads = ["steps", "slots", f"Recall@20 at the end, {videos}", "minus naive"]
    work_heads = ["slots to the common level", "share, slots", "share, frames"]
    blocks = [
        "![Recall@20 in long training](../charts/convergence.svg)",
        markdown(reached, ["", *heads]),
        markdown(spent, ["", *work_heads]),
        markdown(predicted, ["predicted before the runs", "by seed"]),
    ]
    missing = [name for name in ("naive", "sampling", "bload") if name not in {*runs[LOADER]}]
    return "\n\n".join(blocks) + name_missing(missing)


def draw(folder: Path, figure: Figure) -> None:
    """Draw mean Recall@20 over seeds, between the lowest and the highest, by slots."""
    _, curves = read(folder)
    axis = figure.add_subplot(
        xlabel="thousand slots processed, padding included", ylabel="Recall@20, %", xscale="log"
    )
    marks = dict(zip(WAYS, cycle("osD^vPXp"), strict=False))
    for loader in (name for name in WAYS if name in {*curves[LOADER]}):
        by_epoch = curves[curves[LOADER] == loader].groupby("epoch")
        x, y = by_epoch.processed.mean() / 1000, by_epoch.recall.agg(["mean", "min", "max"])
        colour = colour_of(loader)
        look = marks[loader] + ("--" if loader == "bload_exact" else "-")
        axis.plot(x, y["mean"], look, markevery=0.04, c=colour, label=loader)
        axis.fill_between(x, y["min"], y["max"], color=colour, alpha=0.15, lw=0)
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:,.10g}")


if __name__ == "__main__":
    title = "Naive padding takes three times the slots to the same Recall"
    report_runs("convergence", __doc__, tables, draw, title=title)
