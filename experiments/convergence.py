"""Long training: where does each loader end, and how much work does it take to get there?

    python train.py experiment=convergence
    python train.py experiment=convergence loader=naive train.slots=1032000 \\
        train.warmup_epochs=0.1353 train.evals_per_epoch=4
    python -m experiments.convergence [FOLDER]

The rate is constant after the warm-up, and evaluations are of an average of the last weights, so
that each point of a curve could be the end. Predicted: `bload` ends level with `naive`, `sampling`
ends below, and `naive` takes over 3 times the work of `bload` to the common level, 90 % of naive's
mean end (docs/LOG.md, "How far training goes under each loader: the plan, written before any run").
The README gives the work to the same Recall@20 as a share of naive's slots. Seconds are left out,
since other jobs ran at the same time.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from bload.packing.packers import PACKERS
from bload.show.draw import colour_of, label_of
from experiments.intervals import ratio, signed, student
from experiments.runs import read_curves, read_runs
from experiments.study import markdown, study

LOADER, SEED = "loader.name", "train.seed"
SHARE = 0.9
"""Share of a Recall@20 to be reached."""


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the runs, and the points of their curves with a known Recall@20."""
    runs = read_runs(folder, "convergence")
    curves = read_curves(folder).dropna(subset="recall")
    return runs, curves.merge(runs[["run", LOADER, SEED]], on="run")


def each(curves: pd.DataFrame, figure: Callable[[pd.DataFrame], float]) -> pd.DataFrame:
    """Compute a figure of each curve: a row per seed, a column per loader; NaN without a run."""
    found = {(seed, loader): figure(of) for (seed, loader), of in curves.groupby([SEED, LOADER])}
    return pd.Series(found).unstack().reindex(columns=[*PACKERS])


def work_to(level: float, curve: pd.DataFrame, of: str = "processed") -> float:
    """Return the slots, or sums `of`, at which Recall@20 first reaches a level; NaN: never.

    Recall@20 is interpolated linearly between evaluations.
    """
    work, recall = [0.0, *curve[of]], [0.0, *curve.recall]
    for last, reached in enumerate(recall[1:]):
        if reached >= level:
            share = (level - recall[last]) / (reached - recall[last])
            return float(work[last] + share * (work[last + 1] - work[last]))
    return math.nan


def to_level(level: float, curves: pd.DataFrame, of: str = "processed") -> pd.DataFrame:
    """Compute `work_to` a level for each curve."""
    return each(curves, lambda curve: work_to(level, curve, of))


def common_level(curves: pd.DataFrame) -> float:
    """Return `SHARE` of the mean Recall@20 at which naive ends."""
    return SHARE * each(curves, _end).naive.mean()


def work_before(level: float, curve: pd.DataFrame) -> float:
    """Return the slots at the last evaluation before a level is reached; NaN: there is none."""
    first = int((curve.recall >= level).to_numpy().argmax())
    return float(curve.processed.iloc[first - 1]) if first else math.nan


def loss_fell(curve: pd.DataFrame) -> float:
    """Return the percent by which the loss fell from the fourth fifth of the slots to the last.

    An epoch's loss is that of all its slots.
    """
    curve = curve.dropna(subset="loss")  # evaluations inside an epoch have none
    ends = curve.processed.to_numpy(dtype=float)
    begins, fifth = np.concatenate([[0.0], ends[:-1]]), ends[-1] / 5

    def mean(low: float, high: float) -> float:
        inside = np.clip(np.minimum(ends, high) - np.maximum(begins, low), 0, None)
        return float(np.average(curve.loss, weights=inside))

    return 100 * (1 - mean(4 * fifth, 5 * fifth) / mean(3 * fifth, 4 * fifth))


def recall_rose(curve: pd.DataFrame) -> float:
    """Return the points by which mean Recall@20 rose from the fourth fifth of slots to the last."""
    share = curve.processed / curve.processed.iloc[-1]
    last, before = curve.recall[share > 0.8], curve.recall[(share > 0.6) & (share <= 0.8)]
    return float(last.mean() - before.mean())


def times(work: pd.Series, other: pd.Series, digits: int = 1) -> str:
    """Format the ratio of work to other work, by seed; empty if a run did not get there."""
    missing = work.isna().any() or other.isna().any()
    return "" if missing else ratio(work, other).text(digits)


def tables(folder: Path) -> str:
    """Tabulate where each loader ends, the work to get there, and differences by seed."""
    runs, curves = read(folder)
    done = runs.groupby(LOADER)[["all_steps", "slots"]].mean()
    ends, best = each(curves, _end), each(curves, lambda curve: curve.recall.max())
    rose, fell = each(curves, recall_rose), each(curves, loss_fell)
    own = each(curves, lambda curve: work_to(SHARE * _end(curve), curve))
    level = common_level(curves)
    slots, frames = (to_level(level, curves, of) for of in ("processed", "frames"))
    before = each(curves, lambda curve: work_before(level, curve))
    end, work = [], []
    for loader in ends.dropna(axis=1, how="all"):
        less = "" if loader == "naive" else signed(ends[loader] - ends.naive)
        changes = (student(of[loader]).text() for of in (rose, fell))
        counts = (f"{of:,.0f}" for of in done.loc[loader])
        end.append([loader, *counts, student(ends[loader]).text(), less, *changes])
        counts = (student(of[loader]).text(0) for of in (own, slots))
        shares = [times(of[loader], of.naive, 2) for of in (slots, frames)]
        work.append([loader, *counts, *(["1", "1"] if loader == "naive" else shares)])
    by_slots = times(slots.naive, slots.bload)
    predicted = [
        ["`bload` ends level with `naive`, points", signed(ends.bload - ends.naive)],
        ["`sampling` ends below `bload`, points", signed(ends.sampling - ends.bload)],
        ["to the common level `naive` takes over 3 times the slots of `bload`", by_slots],
    ]
    lower = {at: to_level(at, curves) for at in (50, 60, 80)}
    then = each(curves, lambda curve: np.interp(116_360, curve.processed, curve.recall))
    slots_of = "slots of `naive` over those of `bload`"
    after = [
        *([f"{slots_of}, to {at} %", times(of.naive, of.bload)] for at, of in lower.items()),
        ["to the evaluation of `naive` before the common level", times(before.naive, slots.bload)],
        ["`bload` less `sampling` at 116,360 slots, points", signed(then.bload - then.sampling)],
        ["best of `bload` less best of `sampling`, points", signed(best.bload - best.sampling)],
        ["end of `mix` less end of `bload`, points", signed(ends["mix"] - ends.bload)],
    ]
    heads = ["", "steps", "slots", "Recall@20 at the end", "less naive", "it rose by"]
    to, shared = "slots to", ("share, slots", "share, frames")
    blocks = [
        "![Recall@20 in long training](charts/convergence.svg)",
        markdown(end, [*heads, "the loss fell by, %"]),
        markdown(work, ["", f"{to} 90 % of its end", f"{to} the common level", *shared]),
        markdown(predicted, ["predicted before the runs", "by seed"]),
        markdown(after, ["looked at afterwards", "by seed"]),
    ]
    return "\n\n".join(blocks)


def _end(curve: pd.DataFrame) -> float:
    return float(curve.recall.iloc[-1])


def draw(folder: Path, figure: Figure) -> None:
    """Draw mean Recall@20 over seeds, between the lowest and the highest, by slots."""
    _, curves = read(folder)
    axis = figure.add_subplot(
        xlabel="thousand slots processed, padding included", ylabel="Recall@20, %", xscale="log"
    )
    marks = dict(zip(PACKERS, "osD^vPXp", strict=True))
    for loader in each(curves, _end).dropna(axis=1, how="all"):
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
    study("convergence", __doc__, tables, draw, title=title)
