"""What loaders reach in long training, and the work to get there: ``experiment=convergence``.

How it is judged was written down before the runs, in docs/LOG.md.
"""

import math

import numpy as np
import pandas as pd

from bload.draw import label_of
from experiments.report.charts import line_chart
from experiments.report.exhibits import (
    Estimate,
    Exhibit,
    Part,
    estimate,
    missing,
    note,
    ratio,
    rows,
)
from experiments.report.results import NAMES, Compared, Results, compare

SHARE = 0.9
"""Share of a Recall@20 that is to be reached."""
FLAT = 2.0
"""Percent that the loss may fall by from the fourth fifth of the slots to the last."""
Curves = dict[str, dict[int, pd.DataFrame]]
"""Loader -> seed -> epochs: slots `processed` and `frames` so far, `loss`, `recall` in percent."""


def convergence(results: Results) -> list[Part]:
    """Recall@20 against work, and the work to reach a level."""
    found = _runs(results)
    curves = _curves(results)
    if found is None or not curves:
        return [missing("long runs", "convergence")]
    lines = pd.concat([one for of in curves.values() for one in of.values()])
    groups = lines.groupby(["loader", "epoch"], sort=False)
    points = groups.recall.agg(y="mean", low="min", high="max")
    points = points.assign(x=groups.processed.mean() / 1000).reset_index()
    labels = ("thousand slots processed, padding included", "Recall@20, %")
    text = note("convergence", found)
    title = "Recall@20 in long training"
    return [
        line_chart(title, points, labels, [], text, xscale="log"),
        Exhibit("Long training", _table(curves), note("convergence_end", found)),
        *([_predictions(curves)] if {"naive", "sampling", "bload"} <= curves.keys() else []),
    ]


def _runs(results: Results) -> Compared | None:
    # Naive gets more slots, as many of them to warm up as the others, and evaluations as often.
    free = ("train.slots", "train.warmup_epochs", "train.evals_per_epoch")
    return compare(results, "convergence", "loader", *free)


def work_beside_naive(results: Results) -> dict[str, Estimate]:
    """Loader -> slots to the common level as a share of naive's, by seed; empty without naive.

    Loaders of which a seed does not get there are left out.
    """
    curves = _curves(results)
    return _beside_naive(_to_level(curves)) if "naive" in curves else {}


def _curves(results: Results) -> Curves:
    found = _runs(results)
    if found is None:
        return {}
    lines = found.runs[[*NAMES, "loader", "train.seed"]].merge(results.epochs, on=NAMES)
    by_loader = lines.dropna(subset="recall").groupby("loader", sort=False)
    return {str(loader): dict(iter(of.groupby("train.seed"))) for loader, of in by_loader}


def work_to(level: float, curve: pd.DataFrame, of: str = "processed") -> float:
    """Slots, or sums `of`, at which Recall@20, straight between evaluations, first reaches a level.

    NaN: never.
    """
    work, recall = [0.0, *curve[of]], [0.0, *curve.recall]
    for last, reached in enumerate(recall[1:]):
        if reached >= level:
            share = (level - recall[last]) / (reached - recall[last])
            return float(work[last] + share * (work[last + 1] - work[last]))
    return math.nan


def loss_fell(curve: pd.DataFrame) -> float:
    """Percent by which the loss fell from the fourth fifth of the slots to the last.

    An epoch's loss stands for all of its slots.
    """
    curve = curve.dropna(subset="loss")  # evaluations inside an epoch have none
    ends = curve.processed.to_numpy(dtype=float)
    begins, fifth = np.concatenate([[0.0], ends[:-1]]), ends[-1] / 5

    def mean(low: float, high: float) -> float:
        inside = np.clip(np.minimum(ends, high) - np.maximum(begins, low), 0, None)
        return float(np.average(curve.loss, weights=inside))

    return 100 * (1 - mean(4 * fifth, 5 * fifth) / mean(3 * fifth, 4 * fifth))


def recall_rose(curve: pd.DataFrame) -> float:
    """Points by which Recall@20 rose from the fourth fifth of the slots to the last.

    The mean of the evaluations in each counts; NaN: none in one of them.
    """
    share = curve.processed / curve.processed.iloc[-1]
    last, before = curve.recall[share > 0.8], curve.recall[(share > 0.6) & (share <= 0.8)]
    return float(last.mean() - before.mean())


def _common_level(curves: Curves) -> float:
    return SHARE * float(np.mean([of.recall.iloc[-1] for of in curves["naive"].values()]))


def _to_level(curves: Curves, of: str = "processed") -> dict[str, pd.Series]:
    """Loader -> slots, or sums `of`, to the common level by seed; NaN: not reached."""
    level = _common_level(curves)
    return {
        loader: pd.Series({seed: work_to(level, curve, of) for seed, curve in mine.items()})
        for loader, mine in curves.items()
    }


def _before_level(curves: Curves) -> pd.Series:
    """Slots of naive at its last evaluation before the common level, by seed; NaN: none."""
    level = _common_level(curves)

    def before(curve: pd.DataFrame) -> float:
        first = int((curve.recall >= level).to_numpy().argmax())
        return float(curve.processed.iloc[first - 1]) if first else math.nan

    return pd.Series({seed: before(of) for seed, of in curves["naive"].items()})


def _beside_naive(slots: dict[str, pd.Series]) -> dict[str, Estimate]:
    """Slots as a share of naive's, of loaders all of whose seeds reach the level."""
    naive = slots["naive"]
    found = {}
    for loader, of in slots.items():
        if not of.isna().any() and not naive.isna().any():
            both = pd.DataFrame({"a": of, "b": naive}).dropna()
            found[loader] = ratio(both.a, both.b, paired=True)
    return found


def _predictions(curves: Curves) -> Exhibit:
    """The predictions of the plan, each decided by an interval over seeds."""
    ends, slots = _ends(curves), _to_level(curves)
    level = estimate((ends["bload"] - ends["naive"]).dropna())
    below = estimate((ends["sampling"] - ends["bload"]).dropna())
    times = _times(slots)
    never = bool(slots["bload"].isna().all() and slots["naive"].notna().all())
    is_level = _verdict(level, level.low <= 0 <= level.high, level.low > 0 or level.high < 0)
    if is_level == "holds":
        is_level = f"holds, within {max(-level.low, level.high):.1f}"
    found = {
        "BLoad ends level with naive, points apart": (level, is_level),
        "sampling ends below BLoad, points": (
            below,
            _verdict(below, below.high < 0, below.low > 0),
        ),
        "naive takes over 3 times the work of BLoad": (
            times,
            _verdict(times, times.low > 3, times.high < 3 or never),
        ),
        "the same by naive's evaluation before, at least": (
            _times(slots | {"naive": _before_level(curves)}),
            "-",
        ),
    }
    columns = {
        "figure": {words: of for words, (of, _) in found.items()},
        "verdict": {words: verdict for words, (_, verdict) in found.items()},
    }
    return Exhibit("What was predicted of long training", rows("prediction", columns, "1 0", str))


def _verdict(of: Estimate, holds: bool, fails: bool) -> str:
    if holds or fails:
        return "holds" if holds else "fails"
    return "-" if math.isnan(of.low) else "undecided"


def _times(slots: dict[str, pd.Series]) -> Estimate:
    """How many times the work of bload naive takes to the common level."""
    share = _beside_naive(slots).get("bload")
    if share is None:
        return Estimate(math.nan)
    return Estimate(1 / share.mean, 1 / share.high, 1 / share.low, share.count)


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
    rose = {loader: estimate(map(recall_rose, mine.values())) for loader, mine in curves.items()}
    slots = {
        loader: np.mean([of.processed.iloc[-1] for of in mine.values()])
        for loader, mine in curves.items()
    }
    columns = {
        "seeds": {loader: len(mine) for loader, mine in curves.items()},
        "slots": slots,
        "loss fell at the end, %": fell,
        "flat": {loader: _flat(mine) for loader, mine in curves.items()},
        "Recall@20 rose, points": rose,
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
            "reach the common level": {
                key: f"{of.notna().sum()} of {len(of)}" for key, of in to_level.items()
            },
            "slots to it": {key: estimate(of) for key, of in to_level.items() if of.notna().all()},
            "share of naive's": _beside_naive(to_level),
            "in frames": _beside_naive(_to_level(curves, "frames")),
        }
    return rows("loader", columns, "0 0 1 0 +1 1 0 +1 0 0 2 2", label_of)


def _flat(mine: dict[int, pd.DataFrame]) -> str:
    flat = sum(loss_fell(of) < FLAT for of in mine.values())
    return f"{flat} of {len(mine)}"
