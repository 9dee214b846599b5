"""How far back labels reach: what are whole videos worth if a cue is shown only once?

    python train.py experiment=frames                   # the network that all runs start from
    python train.py experiment=horizon
    python train.py experiment=horizon loader=sampling loader.place=first,fixed
    python train.py experiment=horizon loader=bload train.starts=table,ignored train.seed=0,1,2,3
    python -m experiments.horizon [FOLDER]

A state shows its cue when it begins, and lasts 8, 16 or 32 frames on average, or as long as the
video. Predicted: whole videos gain over fresh clips, more so at a longer horizon; they gain more
over clips that are always the same; the start table is worth more the longer states last
(docs/LOG.md, "When whole videos beat clips: the plan, written before any run"); clips that are
fixed anywhere end below first and below fresh ones ("Frames that are gone" there). A control
repeats the cues: ``dataset.dwell=16 dataset.cue_rate=0.4 loader=sampling,bload`` ("The recipe or
the cue"). Stars are after Holm's correction over the horizons of a row. Seconds are left out, since
other jobs ran at the same time.
"""

from dataclasses import asdict
from functools import cache
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bload.show.draw import INK, colour_of, label_of
from datasets.synthetic.observers import EVERYTHING, MEMORYLESS, cut_off, expected_recall
from datasets.synthetic.script import write_scripts
from datasets.synthetic.world import World
from experiments.intervals import corrected, signed, student
from experiments.runs import read_on, read_runs
from experiments.study import markdown, study

SEED, DWELL, CUES = "train.seed", "dataset.dwell", "dataset.cue_rate"
FIRST, FIXED = "sampling, first clips", "sampling, fixed clips"
NO_TABLE = "bload, no start table"
WAYS = ("sampling", FIRST, FIXED, "ragged", "bload", "bload_exact", NO_TABLE)
"""Ways to train: the loader, and its difference from the defaults."""


def read_ways(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the runs with their `way`: those whose cues are shown once, and those of the control."""
    runs = read_runs(folder, "horizon")
    place = runs.get("loader.place", runs["loader.name"])  # there if sampling is
    way = runs["loader.name"].mask(place == "first", FIRST).mask(place == "fixed", FIXED)
    way = way.mask(runs["train.starts"] == "ignored", NO_TABLE)
    runs = pd.concat([runs, way.rename("way")], axis=1)
    return runs[runs[CUES] == 0], runs[runs[CUES] > 0]


def less(runs: pd.DataFrame, other: str, key: str = "recall") -> pd.DataFrame:
    """Return `bload` less another way in points: a row per seed, a column per horizon, or NaN."""
    all_of_them = pd.MultiIndex.from_product([WAYS, sorted(runs[DWELL].unique())])
    by = runs.pivot(index=SEED, columns=["way", DWELL], values=key).reindex(columns=all_of_them)
    return by["bload"] - by[other]


def predictions(runs: pd.DataFrame) -> dict[str, pd.Series]:
    """Return differences that were predicted to be above 0: words -> points by seed."""
    fresh, first, fixed, table = (less(runs, way) for way in ("sampling", FIRST, FIXED, NO_TABLE))
    near, far = fresh.columns[[0, -1]]
    return {
        "the gain over fresh clips grows with the horizon": fresh[far] - fresh[near],
        "the gain over first clips is the larger one": (first - fresh).mean(axis=1, skipna=False),
        "first clips end above fixed clips": (fixed - first).mean(axis=1, skipna=False),
        "fresh clips end above fixed clips": (fixed - fresh).mean(axis=1, skipna=False),
        "the start table is worth more the longer states last": table[far] - table[near],
    }


@cache
def observers(world: World, split: str, clip: int) -> tuple[list[float], float]:
    """Return Recall@20 on `split`, in percent, of observers of nothing, a clip, everything.

    Also return the percentage of what must be remembered in a fresh clip whose cue came before it.
    """
    scripts = write_scripts(world, split)
    memories = (MEMORYLESS, clip, EVERYTHING)
    recalls = [100 * expected_recall(scripts, memory) for memory in memories]
    return recalls, 100 * cut_off(write_scripts(world, "train"), clip)


def of_worlds(runs: pd.DataFrame) -> tuple[dict[str, list[float]], list[float]]:
    """Return observer -> its Recall@20 by horizon, and what fresh clips cut off by horizon."""
    clip, found = int(runs.t_max.min()), []
    for _, run in runs.sort_values(DWELL).drop_duplicates(DWELL).iterrows():
        keys = {key: of for key, of in asdict(World()).items() if f"dataset.{key}" in run}
        knobs = {key: type(of)(run[f"dataset.{key}"]) for key, of in keys.items()}
        found.append(observers(World(**knobs), run.split, clip))
    names = [f"an observer that recalls {of}" for of in ("nothing", f"{clip} frames", "everything")]
    by_observer = zip(*(recalls for recalls, _ in found), strict=True)
    return dict(zip(names, map(list, by_observer), strict=True)), [cut for _, cut in found]


def tables(folder: Path) -> str:
    """Tabulate Recall@20 of every way, differences by seed, the predictions, and the control.

    Runs that were read on other videos have tables of their own.
    """
    once, again = read_ways(folder)
    blocks = ["![Recall@20 by horizon](charts/horizon.svg)"]
    for split, runs in once.groupby("split", sort=False):
        blocks += _tables(runs)
        if split in {*again.split}:
            blocks.append(_control(runs, again))
    return "\n\n".join(blocks)


def _tables(once: pd.DataFrame) -> list[str]:
    horizons = [_named(dwell) for dwell in sorted(once[DWELL].unique())]
    ideal, cut = of_worlds(once)
    ways = [way for way in WAYS if way in {*once.way}]
    recall = once.groupby(["way", DWELL]).recall.apply(lambda of: student(of).text()).unstack()
    work = once.groupby("way")[["epochs", "all_steps", "slots", "deleted"]].mean()
    reached = [[name, *[""] * 4, *(f"{of:.1f}" for of in by)] for name, by in ideal.items()]
    for way in ways:
        counts = (f"{of:,.0f}" for of in work.loc[way])
        reached.append([way, *counts, *recall.loc[way].fillna("")])
    compared = [["cues that fresh clips cut off", *(f"{of:.0f} %" for of in cut)]]
    for way in (way for way in ways if way != "bload"):
        for key in ("recall", "remembered") if way == "sampling" else ("recall",):
            name = f"less {way}" + ", what must be remembered" * (key == "remembered")
            compared.append([name, *corrected(of for _, of in less(once, way, key).items())])
    predicted = [[words, signed(of)] for words, of in predictions(once).items()]
    first = f"{read_on(once)}, a state lasts"
    heads = [first, "epochs", "steps", "slots", "deleted per epoch", *horizons]
    return [
        markdown(reached, heads),
        markdown(compared, ["`bload`", *horizons]),
        markdown([row for row in predicted if row[1]], ["predicted before the runs", "by, points"]),
    ]


def _control(once: pd.DataFrame, again: pd.DataFrame) -> str:
    dwell = again[DWELL].iloc[0]
    both = {"once": once[once[DWELL] == dwell], "again and again": again[again[DWELL] == dwell]}
    gains = {cue: less(runs, "sampling")[dwell] for cue, runs in both.items()}
    rows = []
    for cue, runs in both.items():
        for way in ("sampling", "bload"):
            mine = runs[runs.way == way]
            counts = (f"{mine[key].mean():,.0f}" for key in ("all_steps", "slots"))
            gain = signed(gains[cue]) if way == "bload" else ""
            rows.append([cue, way, *counts, student(mine.recall).text(), gain])
    fell = gains["once"] - gains["again and again"]
    rows.append(["once less again and again", "", "", "", "", signed(fell)])
    first = f"states of {_named(dwell)}, cues shown"
    heads = [first, "trained by", "steps", "slots", "Recall@20", "less sampling"]
    return markdown(rows, heads, words=2)


def _named(dwell: float) -> str:
    return f"{dwell:g} frames" if dwell < 1000 else "the video"


def draw(folder: Path, figure: Figure) -> None:
    """Draw means over seeds with the lowest and the highest, by horizon, between the observers."""
    runs, _ = read_ways(folder)
    runs = runs[runs.split == runs.split.mode()[0]]  # the videos that most were read on
    horizons = sorted(runs[DWELL].unique())
    axis = figure.add_subplot(xlabel="a state lasts", ylabel="Recall@20, %")
    axis.set_xticks(range(len(horizons)), [_named(dwell) for dwell in horizons])
    observers = [*of_worlds(runs)[0].items()]
    for (name, by), broken in zip(observers[::2], (":", "--"), strict=True):
        axis.plot(by, ls=broken, color=INK, lw=1.3, label=name.removeprefix("an "))
    ways = [way for way in WAYS if way in {*runs.way} - {"ragged"}]  # as bload, see the table
    for place, way in enumerate(ways):
        by = runs[runs.way == way].groupby(DWELL).recall.agg(["mean", "min", "max"])
        loader, comma, option = way.partition(",")
        axis.errorbar(
            [horizons.index(dwell) + 0.05 * (place - (len(ways) - 1) / 2) for dwell in by.index],
            by["mean"],
            [by["mean"] - by["min"], by["max"] - by["mean"]],
            color=colour_of(loader),
            label=label_of(loader) + comma + option,
            marker="o",
            mfc="white" if option else colour_of(loader),
            mec=colour_of(loader),
            mew=1.5,
            ls="--" if option else "-",
        )


if __name__ == "__main__":
    title = "Clips lose what a label needs from far back; whole videos keep it"
    study("horizon", __doc__, tables, draw, title=title, height=4.8)
