"""Where training ends under each loader, and the work to get there: ``experiment=convergence``.

How it is judged was written down before the runs, in docs/LOG.md.
"""

import math

import numpy as np
import pandas as pd

from bload.draw import label_of
from experiments.report.charts import line_chart
from experiments.report.figures import Estimate, Exhibit, Part, estimate, missing, note, ratio, rows
from experiments.report.results import NAMES, Results, compare

SHARE = 0.9
"""Share of a Recall@20 that is to be reached."""
FLAT = 2.0
"""Percent that the loss may fall by from the fourth fifth of the slots to the last."""
Curves = dict[str, dict[int, pd.DataFrame]]
"""Loader -> seed -> `processed` slots so far, `loss` and `recall` in percent after every epoch."""


def convergence(results: Results) -> list[Part]:
    """Recall@20 against work up to the end of training, and the work to reach a level."""
    found = compare(results, "convergence", "loader", "train.slots")
    curves = _curves(results)
    if found is None or not curves:
        return [missing("runs to where more work brings nothing", "convergence")]
    lines = pd.concat([one for of in curves.values() for one in of.values()])
    groups = lines.groupby(["loader", "epoch"], sort=False)
    points = groups.recall.agg(y="mean", low="min", high="max")
    points = points.assign(x=groups.processed.mean() / 1000).reset_index()
    labels = ("thousand slots processed, padding included", "Recall@20, %")
    text = note("convergence", found)
    title = "Recall@20 to the end of training"
    return [
        line_chart(title, points, labels, [], text, xscale="log"),
        Exhibit("The end of training", _table(curves), note("convergence_end", found)),
        *([_predictions(curves)] if {"naive", "sampling", "bload"} <= curves.keys() else []),
    ]


def work_beside_naive(results: Results) -> dict[str, Estimate]:
    """Loader -> slots to the common level as a share of naive's, by seed; empty without naive."""
    curves = _curves(results)
    return _beside_naive(_to_level(curves)) if "naive" in curves else {}


def _curves(results: Results) -> Curves:
    found = compare(results, "convergence", "loader", "train.slots")
    if found is None:
        return {}
    lines = found.runs[[*NAMES, "loader", "train.seed"]].merge(results.epochs, on=NAMES)
    by_loader = lines.dropna(subset="recall").groupby("loader", sort=False)
    return {str(loader): dict(iter(of.groupby("train.seed"))) for loader, of in by_loader}


def work_to(level: float, curve: pd.DataFrame) -> float:
    """Slots at which Recall@20, straight between evaluations, first reaches a level; NaN: never."""
    work, recall = [0.0, *curve.processed], [0.0, *curve.recall]
    for last, reached in enumerate(recall[1:]):
        if reached >= level:
            share = (level - recall[last]) / (reached - recall[last])
            return float(work[last] + share * (work[last + 1] - work[last]))
    return math.nan


def loss_fell(curve: pd.DataFrame) -> float:
    """Percent by which the loss fell from the fourth fifth of the slots to the last.

    An epoch's loss stands for all of its slots.
    """
    ends = curve.processed.to_numpy(dtype=float)
    begins, fifth = np.concatenate([[0.0], ends[:-1]]), ends[-1] / 5

    def mean(low: float, high: float) -> float:
        inside = np.clip(np.minimum(ends, high) - np.maximum(begins, low), 0, None)
        return float(np.average(curve.loss, weights=inside))

    return 100 * (1 - mean(4 * fifth, 5 * fifth) / mean(3 * fifth, 4 * fifth))


def _to_level(curves: Curves) -> dict[str, pd.Series]:
    """Loader -> slots to `SHARE` of naive's mean end, by seed."""
    level = SHARE * float(np.mean([of.recall.iloc[-1] for of in curves["naive"].values()]))
    return {
        loader: pd.Series({seed: work_to(level, of) for seed, of in mine.items()})
        for loader, mine in curves.items()
    }


def _beside_naive(slots: dict[str, pd.Series]) -> dict[str, Estimate]:
    both = {loader: pd.DataFrame({"a": of, "b": slots["naive"]}) for loader, of in slots.items()}
    both = {loader: of.dropna() for loader, of in both.items()}
    return {loader: ratio(of.a, of.b, paired=True) for loader, of in both.items() if len(of)}


def _predictions(curves: Curves) -> Exhibit:
    """The predictions of the plan, each decided by an interval over seeds."""
    ends = _ends(curves)
    level = estimate((ends["bload"] - ends["naive"]).dropna())
    below = estimate((ends["sampling"] - ends["bload"]).dropna())
    share = _beside_naive(_to_level(curves)).get("bload", Estimate(math.nan))
    times = Estimate(1 / share.mean, 1 / share.high, 1 / share.low, share.count)
    found = {
        "BLoad ends level with naive, points apart": (level, level.low <= 0 <= level.high, True),
        "sampling ends below BLoad, points": (below, below.high < 0, below.low > 0),
        "naive takes over 3 times the work of BLoad": (times, times.low > 3, times.high < 3),
    }

    def verdict(of: Estimate, holds: bool, fails: bool) -> str:
        return (
            "-" if math.isnan(of.low) else "holds" if holds else "fails" if fails else "undecided"
        )

    columns = {
        "figure": {words: of for words, (of, _, _) in found.items()},
        "verdict": {words: verdict(*of) for words, of in found.items()},
    }
    return Exhibit("What was predicted of the end", rows("prediction", columns, "1 0", str))


def _ends(curves: Curves) -> dict[str, pd.Series]:
    return {
        loader: pd.Series({seed: of.recall.iloc[-1] for seed, of in mine.items()})
        for loader, mine in curves.items()
    }


def _table(curves: Curves) -> list[dict]:
    ends = _ends(curves)
    own = {
        loader: estimate(work_to(SHARE * of.recall.iloc[-1], of) for of in mine.values())
        for loader, mine in curves.items()
    }
    fell = {loader: estimate(map(loss_fell, mine.values())) for loader, mine in curves.items()}
    slots = {
        loader: np.mean([of.processed.iloc[-1] for of in mine.values()])
        for loader, mine in curves.items()
    }
    columns = {
        "seeds": {loader: len(mine) for loader, mine in curves.items()},
        "slots": slots,
        "loss fell at the end, %": fell,
        "flat": {loader: "yes" if of.mean < FLAT else "no" for loader, of in fell.items()},
        "Recall@20 at the end, %": {loader: estimate(of) for loader, of in ends.items()},
        "slots to 90 % of it": own,
    }
    if "naive" in curves:
        to_level = _to_level(curves)
        columns |= {
            "less naive, points": {
                loader: estimate(of - ends["naive"])
                for loader, of in ends.items()
                if loader != "naive"
            },
            "slots to the common level": {key: estimate(of) for key, of in to_level.items()},
            "share of naive's": _beside_naive(to_level),
        }
    return rows("loader", columns, "0 0 1 0 1 0 +1 0 2", label_of)
