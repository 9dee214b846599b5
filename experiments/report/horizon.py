"""What whole videos are worth, against how far back labels reach: ``experiment=horizon``.

Differences are by seed: a seed decides the order of the videos, and they start from one network.
What they are judged by was written down before the runs, in docs/LOG.md.
"""

import math
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bload.draw import INK, colour_of, label_of
from datasets.synthetic.observers import EVERYTHING, MEMORYLESS, cut_off, expected_recall
from datasets.synthetic.script import write_scripts
from datasets.synthetic.world import World
from experiments.report.charts import chart
from experiments.report.exhibits import Estimate, Exhibit, Part, estimate, missing, note, rows
from experiments.report.results import Compared, Results, compare

DWELL, CUES, FIRST = "dataset.dwell", "dataset.cue_rate", "a state lasts"
WHOLE = "bload"
OTHERS = {
    "fresh clips": "sampling",
    "first clips": "sampling place=first",
    "fixed clips": "sampling place=fixed",
    "no start table": "bload starts=ignored",
}
"""What `WHOLE` is compared with -> the way to train."""
LABELS = {
    OTHERS["first clips"]: "sampling, first clips",
    OTHERS["fixed clips"]: "sampling, fixed clips",
    OTHERS["no start table"]: "BLoad, no start table",
}
VERDICTS = {"above": "holds", "below": "fails"}
"""Side of 0 on which an interval lies -> what a prediction does that it lies above."""
Reached = dict[float, dict[str, pd.Series]]
"""Frames that a state lasts -> way to train -> Recall@20 in percent by seed."""
Levels = dict[float, dict[str, float]]
"""Frames that a state lasts -> what an observer remembers -> its Recall@20 in percent."""
Name = Callable[[float], str]


def _label(way: str) -> str:
    return LABELS.get(way) or label_of(way)


def horizon(results: Results) -> list[Part]:
    """Recall@20 of every way to train by horizon, and differences with their verdicts."""
    found = compare(results, "horizon", "loader", DWELL, "train.starts")
    if found is None:
        return [missing("runs over how far back labels reach", "horizon")]
    runs = _with_ways(found)
    reached = _reached(runs)
    worlds = {float(dwell): _world(mine) for dwell, mine in runs.groupby(DWELL)}
    clip = int(runs.t_max.min())
    levels = {dwell: _recalls(world, clip) for dwell, world in worlds.items()}
    cuts = {dwell: _cut_off(world, clip) for dwell, world in worlds.items()}
    name = partial(_name, runs.t_max.max())
    return [
        _drawn(found, reached, levels, name),
        _differences("BLoad, seed by seed, points", reached, name, cuts),
        _differences("The same on what must be remembered", _reached(runs, "memory"), name),
        _predictions(reached),
        *_control(results, reached, name),
        _everything(runs, name),
    ]


def worth_of_starts(results: Results) -> dict[str, Estimate]:
    """What the start table is worth at each horizon, in points, by pairs of one seed."""
    found = compare(results, "horizon", "loader", DWELL, "train.starts")
    if found is None or found.is_quick:
        return {}
    runs = _with_ways(found)
    less = _less(_reached(runs), OTHERS["no start table"])
    return {_name(runs.t_max.max(), dwell): estimate(of) for dwell, of in less.items()}


def _with_ways(found: Compared) -> pd.DataFrame:
    starts = found.runs["train.starts"].map({"table": "", "ignored": " starts=ignored"})
    return found.runs.assign(way=found.runs.loader + starts)


def _reached(runs: pd.DataFrame, key: str = "recall") -> Reached:
    return {
        float(dwell): {
            str(way): of.set_index("train.seed")[key] for way, of in mine.groupby("way", sort=False)
        }
        for dwell, mine in runs.groupby(DWELL)
    }


def _name(longest: float, dwell: float) -> str:
    return f"{dwell:g} frames" if dwell < longest else "the video"


def _world(runs: pd.DataFrame) -> World:
    run = runs.iloc[0]
    return World(**{key: type(of)(run[f"dataset.{key}"]) for key, of in asdict(World()).items()})


@cache
def _recalls(world: World, clip: int) -> dict[str, float]:
    """What observers reach on the test videos: without memory, with a clip's and with all."""
    scripts = write_scripts(world, "test")
    memories = {"nothing": MEMORYLESS, f"{clip} frames": clip, "everything": EVERYTHING}
    return {name: 100 * expected_recall(scripts, memory) for name, memory in memories.items()}


@cache
def _cut_off(world: World, clip: int) -> float:
    return 100 * cut_off(write_scripts(world, "train"), clip)


def _drawn(found: Compared, reached: Reached, levels: Levels, name: Name) -> Exhibit:
    """Means and ranges over seeds by horizon, between the observers."""
    ways = list(dict.fromkeys(way for of in reached.values() for way in of))
    memories = list(next(iter(levels.values())))

    def draw(axis: Axes) -> None:
        axis.set(xlabel=FIRST, title="Recall@20, %")
        axis.set_xticks(range(len(reached)), [name(dwell) for dwell in reached])
        for memory, broken in zip(memories, (":", "-.", "--"), strict=True):
            reach = [of[memory] for of in levels.values()]
            axis.plot(reach, ls=broken, color=INK, lw=1.3, label=f"observer recalls {memory}")
        for number, way in enumerate(ways):
            there = {at: of[way] for at, of in enumerate(reached.values()) if way in of}
            option = " " in way
            axis.errorbar(
                [at + 0.05 * (number - (len(ways) - 1) / 2) for at in there],
                [of.mean() for of in there.values()],
                np.abs([[of.min() - of.mean(), of.max() - of.mean()] for of in there.values()]).T,
                color=colour_of(way),
                label=_label(way),
                marker="o",
                mfc="white" if option else colour_of(way),
                mec=colour_of(way),
                mew=1.5,
                ls="--" if option else "-",
            )
        axis.figure.legend(loc="outside upper left", ncols=2, borderaxespad=0)

    columns: dict[str, dict[float, Estimate | float]] = {
        f"observer recalls {memory}": {dwell: of[memory] for dwell, of in levels.items()}
        for memory in memories
    }
    columns |= {
        _label(way): {dwell: estimate(of[way]) for dwell, of in reached.items() if way in of}
        for way in ways
    }
    table = rows(FIRST, columns, " ".join("1" * len(columns)), name)
    ends = table[0], table[-1]
    shown = [f"{of} {' to '.join(end[of].split(' ')[0] for end in ends)}" for of in columns]
    alternative = f"Recall@20, %, where a state lasts {' to '.join(end[FIRST] for end in ends)}: "
    alternative += f"{'; '.join(shown)}."
    return chart("Recall@20 by horizon", 4.8, draw, alternative, table, note("horizon", found))


def _less(reached: Reached, other: str) -> dict[float, pd.Series]:
    """`WHOLE` less another way by seed, at each horizon that has both."""
    both = {dwell: of for dwell, of in reached.items() if {WHOLE, other} <= of.keys()}
    return {dwell: (of[WHOLE] - of[other]).dropna() for dwell, of in both.items()}


def side(found: Estimate) -> str:
    """On which side of 0 the whole interval lies: above, below, undecided, or - without one."""
    if math.isnan(found.low):
        return "-"
    return "above" if found.low > 0 else "below" if found.high < 0 else "undecided"


def _differences(
    title: str, reached: Reached, name: Name, cuts: dict[float, float] | None = None
) -> Exhibit:
    cut_off = {"cues cut off by fresh clips, %": cuts} if cuts else {}
    columns: dict[str, dict[float, Any]] = {**cut_off}
    others = {words: found for words, way in OTHERS.items() if (found := _less(reached, way))}
    for words, less in others.items():
        found = {dwell: estimate(of) for dwell, of in less.items()}
        columns[f"seeds, {words}"] = {dwell: float(of.count) for dwell, of in found.items()}
        columns[f"less {words}"] = {**found}
        columns[f"than {words}"] = {dwell: side(of) for dwell, of in found.items()}
    forms = "0 " * len(cut_off) + "0 +1 0 " * len(others)
    text = note("horizon_differences") if cuts else ""
    return Exhibit(title, rows(FIRST, columns, forms, name) if others else [], text)


def _predictions(reached: Reached) -> Exhibit:
    """The predictions of the plans: a number per seed, whose interval decides."""
    fresh, first, fixed, table = (_less(reached, way) for way in OTHERS.values())
    found = {
        "the gain over fresh clips grows with the horizon": estimate(_growth(fresh)),
        "the gain over first clips is the larger one": estimate(_mean(first) - _mean(fresh)),
        "the start table is worth more the longer states last": estimate(_growth(table)),
    }
    if fixed:
        found["first clips end above fixed ones"] = estimate(_mean(fixed) - _mean(first))
        found["fresh clips end above fixed ones"] = estimate(_mean(fixed) - _mean(fresh))
    verdicts = {words: VERDICTS.get(side(of), side(of)) for words, of in found.items()}
    columns = {"by, points": found, "verdict": verdicts}
    return Exhibit("What was predicted", rows("prediction", columns, "+1", str))


def _control(results: Results, reached: Reached, name: Name) -> list[Exhibit]:
    """The gain over fresh clips where cues are repeated, with the recipe of `horizon`."""
    found = compare(results, "horizon", "loader", DWELL, "train.starts", CUES)
    runs = _with_ways(found).query(f"`{CUES}` > 0") if found else pd.DataFrame()
    if runs.empty:
        return []
    other, repeated = OTHERS["fresh clips"], _reached(runs)
    gains, once = _less(repeated, other), _less(reached, other)
    fell = {dwell: estimate((once[dwell] - of).dropna()) for dwell, of in gains.items()}
    columns: dict[str, dict[float, Estimate | str]] = {
        **{
            f"{_label(way)}, %": {dwell: estimate(repeated[dwell][way]) for dwell in gains}
            for way in (other, WHOLE)
        },
        "BLoad less fresh clips, points": {dwell: estimate(of) for dwell, of in gains.items()},
        "with cues shown once": {dwell: estimate(once[dwell]) for dwell in gains},
        "more, seed by seed": {**fell},
        "so the gain is the cue's": {
            dwell: VERDICTS.get(side(of), side(of)) for dwell, of in fell.items()
        },
    }
    table = rows(FIRST, columns, "1 1 +1 +1 +1", name)
    return [Exhibit("The same where cues are repeated", table, note("horizon_control"))]


def _growth(less: dict[float, pd.Series]) -> pd.Series:
    """The difference at the longest horizon less that at the shortest, by seed."""
    if len(less) < 2:
        return pd.Series(dtype=float)
    return less[max(less)] - less[min(less)]


def _mean(less: dict[float, pd.Series]) -> pd.Series:
    """The mean over horizons by seed, of seeds that have all."""
    return pd.DataFrame(less).mean(axis=1, skipna=False)


def _everything(runs: pd.DataFrame, name: Name) -> Exhibit:
    groups = runs.sort_values(DWELL, kind="stable").groupby([DWELL, "way"], sort=False)
    mean = groups.mean(numeric_only=True)
    columns = {
        "trained by": {key: _label(key[1]) for key in mean.index},
        "seeds": groups.size(),
        "epochs": mean.epochs,
        "slots": mean.epochs * mean.processed,
        "deleted": mean.deleted,
        "Recall@20, %": groups.recall.apply(estimate),
        "must be remembered, %": groups.memory.apply(estimate),
    }
    table = rows(FIRST, columns, "0 0 0 0 0 1 1", lambda key: name(key[0]))
    return Exhibit("Every way at every horizon", table)
