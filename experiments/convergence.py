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
from bload.show.draw import colour_of, label_of
from experiments.intervals import ratio, signed, student
from experiments.runs import name_splits, read_curves, read_runs
from experiments.study import markdown, name_missing, report_runs

LOADER, SEED = "loader.name", "train.seed"
SHARE = 0.9
"""Share of a Recall@20 to be reached."""


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the runs, and the points of their curves with a known Recall@20."""
    runs = read_runs(folder)
    curves = read_curves(folder).dropna(subset="recall")
    if curves.empty:
        raise InputError(f"{folder} has no evaluation; give its runs train.eval_every")
    return runs, curves.merge(runs[["run", LOADER, SEED]], on="run")


def by_seed(curves: pd.DataFrame, figure: Callable[[pd.DataFrame], float]) -> pd.DataFrame:
    """Compute a figure of each curve: a row per seed, a column per loader; NaN without a run."""
    groups = curves.groupby([SEED, LOADER])
    figures = {key: figure(curve) for key, curve in groups}
    return pd.Series(figures).unstack().reindex(columns=[*PACKERS])


def final_recall(curve: pd.DataFrame) -> float:
    """Return the last Recall@20 of a curve."""
    return float(curve.recall.iloc[-1])


def work_to(curve: pd.DataFrame, level: float, key: str = "processed") -> float:
    """Return the slots, or sums `key`, at which Recall@20 first reaches a level; NaN: never.

    Recall@20 is interpolated linearly between evaluations.
    """
    reached = np.flatnonzero(curve.recall >= level)
    if not len(reached):
        return math.nan
    ends = slice(reached[0], reached[0] + 2)  # of what begins at 0
    return float(np.interp(level, [0, *curve.recall][ends], [0, *curve[key]][ends]))


def loss_fell(curve: pd.DataFrame) -> float:
    """Return by how many percent the mean loss fell from the fourth fifth of the slots to the last.

    An epoch's loss is that of all its slots.
    """
    curve = curve.dropna(subset="loss")  # evaluations inside an epoch have none
    ends = curve.processed.to_numpy(dtype=float)
    sums = np.cumsum(curve.loss * np.diff(ends, prepend=0))
    three, four, five = np.interp(ends[-1] * np.array([0.6, 0.8, 1]), [0, *ends], [0, *sums])
    return 100 * (1 - (five - four) / (four - three))


def recall_rose(curve: pd.DataFrame) -> float:
    """Return the points by which mean Recall@20 rose from the fourth fifth of slots to the last."""
    share = curve.processed / curve.processed.iloc[-1]
    last, before = curve.recall[share > 0.8], curve.recall[(share > 0.6) & (share <= 0.8)]
    return float(last.mean() - before.mean())


def format_ratio(work: pd.Series, other: pd.Series, digits: int = 1) -> str:
    """Format the ratio of work to other work, by seed; empty if a run did not get there."""
    missing = work.isna().any() or other.isna().any()
    return "" if missing else ratio(work, other).text(digits)


def tables(folder: Path) -> str:
    """Tabulate where each loader ends, the work to get there, and differences by seed."""
    runs, curves = read(folder)
    work = runs.groupby(LOADER)[["all_steps", "slots"]].mean()
    ends, best = by_seed(curves, final_recall), by_seed(curves, lambda curve: curve.recall.max())
    rose, fell = by_seed(curves, recall_rose), by_seed(curves, loss_fell)
    own_slots = by_seed(curves, lambda curve: work_to(curve, SHARE * final_recall(curve)))
    level = SHARE * ends.naive.mean()
    slots = by_seed(curves, partial(work_to, level=level))
    frames = by_seed(curves, partial(work_to, level=level, key="frames"))
    reached, spent = [], []
    for loader in ends.dropna(axis=1, how="all"):
        difference = "" if loader == "naive" else signed(ends[loader] - ends.naive)
        figures = [student(table[loader]).text() for table in (ends, rose, fell)]
        counts = [f"{count:,.0f}" for count in work.loc[loader]]
        reached.append([loader, *counts, figures[0], difference, *figures[1:]])
        shares = [format_ratio(table[loader], table.naive, 2) for table in (slots, frames)]
        counts = [student(table[loader]).text(0) for table in (own_slots, slots)]
        spent.append([loader, *counts, *(["1", "1"] if loader == "naive" else shares)])
    more_work = format_ratio(slots.naive, slots.bload)
    predicted = [
        ["`bload` ends level with `naive`, points", signed(ends.bload - ends.naive)],
        ["`sampling` ends below `bload`, points", signed(ends.sampling - ends.bload)],
        ["to the common level `naive` takes over 3 times the slots of `bload`", more_work],
    ]
    afterwards = []
    for percent in (50, 60, 80):
        lower = by_seed(curves, partial(work_to, level=percent))
        words = f"slots of `naive` over those of `bload`, to {percent} %"
        afterwards.append([words, format_ratio(lower.naive, lower.bload)])
    at = by_seed(curves, lambda curve: np.interp(116_360, curve.processed, curve.recall))
    afterwards += [
        ["`bload` minus `sampling` at 116,360 slots, points", signed(at.bload - at.sampling)],
        ["best of `bload` minus best of `sampling`, points", signed(best.bload - best.sampling)],
        ["end of `mix` minus end of `bload`, points", signed(ends["mix"] - ends.bload)],
    ]
    videos = name_splits(runs.replace({"split": {"final": "validation"}}))  # those of curves
    heads = ["steps", "slots", f"Recall@20 at the end, {videos}", "minus naive"]
    heads += ["Recall@20, last fifth minus the fifth before", "fall of the loss, the same, %"]
    work_heads = ["slots to 90 % of its end", "slots to the common level"]
    work_heads += ["share, slots", "share, frames"]
    blocks = [
        "![Recall@20 in long training](../charts/convergence.svg)",
        markdown(reached, ["", *heads]),
        markdown(spent, ["", *work_heads]),
        markdown(predicted, ["predicted before the runs", "by seed"]),
        markdown(afterwards, ["looked at afterwards", "by seed"]),
    ]
    missing = [name for name in ("naive", "sampling", "bload") if name not in {*runs[LOADER]}]
    return "\n\n".join(blocks) + name_missing(missing)


def draw(folder: Path, figure: Figure) -> None:
    """Draw mean Recall@20 over seeds, between the lowest and the highest, by slots."""
    _, curves = read(folder)
    axis = figure.add_subplot(
        xlabel="thousand slots processed, padding included", ylabel="Recall@20, %", xscale="log"
    )
    marks = dict(zip(PACKERS, cycle("osD^vPXp"), strict=False))
    for loader in by_seed(curves, final_recall).dropna(axis=1, how="all"):
        by_epoch = curves[curves[LOADER] == loader].groupby("epoch")
        x, y = by_epoch.processed.mean() / 1000, by_epoch.recall.agg(["mean", "min", "max"])
        colour = colour_of(loader)
        look = marks[loader] + ("--" if loader == "bload_exact" else "-")
        axis.plot(x, y["mean"], look, markevery=0.04, c=colour, label=label_of(loader))
        axis.fill_between(x, y["min"], y["max"], color=colour, alpha=0.15, lw=0)
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:,.10g}")


if __name__ == "__main__":
    title = "Naive padding takes three times the slots to the same Recall"
    report_runs("convergence", __doc__, tables, draw, title=title)
