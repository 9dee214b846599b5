"""How far back labels reach: what are whole videos worth if a cue is shown only once?

    python train.py experiment=frames                   # the network that all runs start from
    python train.py experiment=horizon                  # and the others in its file
    python -m experiments.horizon [FOLDER]

Predicted: whole videos gain over fresh clips, more so at a longer horizon; they gain more over
clips that are always the same; the start table is worth more the longer states last (dev/LOG.md,
"When whole videos beat clips: the plan, written before any run"); clips that are fixed anywhere end
below first and below fresh ones ("Frames that are gone" there). A control repeats the cues ("The
recipe or the cue"). Stars are after Holm's correction over the horizons of a row.
"""

from dataclasses import asdict
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bload import InputError
from datasets.synthetic.observers import EVERYTHING, MEMORYLESS, expected_recall
from datasets.synthetic.script import write_scripts
from datasets.synthetic.world import World
from experiments.intervals import corrected, signed, t_interval
from experiments.runs import name_others, name_splits, name_ways, read_runs, refuse_mixtures
from experiments.study import INK, colour_of, markdown, name_missing, report_runs

SEED, DWELL, CUES = "train.seed", "dataset.dwell", "dataset.cue_rate"
FIRST, FIXED = "sampling, first clips", "sampling, fixed clips"
NO_TABLE = "bload, no start table"
WAYS = ("sampling", FIRST, FIXED, "ragged", "bload", "bload_exact", NO_TABLE)
"""Ways to train: the loader, and its difference from the defaults."""


def read_ways(folder: Path) -> pd.DataFrame:
    """Read the runs with their `way`; InputError if none shows its cues once."""
    runs = read_runs(folder)
    if not (runs.get(CUES, pd.Series(dtype=float)) == 0).any():
        raise InputError(f"{folder} has no run with {CUES}=0, as experiment=horizon trains them")
    place = runs.get("loader.place", runs["loader.name"])  # a column if sampling is there
    way = pd.Series(name_ways(runs), runs.index)
    way = way.mask(place.isin(["first", "fixed"]), way + ", " + place.map(str) + " clips")
    runs = runs.assign(way=way.mask(runs["train.starts"] == "ignored", way + ", no start table"))
    return refuse_mixtures(runs, "way", "split", DWELL, CUES)


def subtract(runs: pd.DataFrame, other: str, key: str = "recall") -> pd.DataFrame:
    """Return `bload` minus another way in points: a row per seed, a column per horizon, or NaN."""
    columns = pd.MultiIndex.from_product([WAYS, sorted(runs[DWELL].unique())])
    table = runs.pivot_table(key, SEED, ["way", DWELL]).reindex(columns=columns)
    return table["bload"] - table[other]


def hypotheses(runs: pd.DataFrame) -> dict[str, pd.Series]:
    """Return differences that were predicted to be above 0: words -> points by seed."""
    ways = "sampling", FIRST, FIXED, NO_TABLE
    fresh, first, fixed, table = (subtract(runs, way) for way in ways)
    shortest, longest = fresh.columns[[0, -1]]
    return {
        "the gain over fresh clips grows with the horizon": fresh[longest] - fresh[shortest],
        "the gain over first clips is the larger one": (first - fresh).mean(axis=1, skipna=False),
        "first clips end above fixed clips": (fixed - first).mean(axis=1, skipna=False),
        "fresh clips end above fixed clips": (fixed - fresh).mean(axis=1, skipna=False),
        "the start table is worth more the longer states last": table[longest] - table[shortest],
    }


def observe(runs: pd.DataFrame) -> dict[str, list[float]]:
    """Return the Recall@20 by horizon, in percent, of observers of nothing, a clip, everything."""
    clip = int(runs.t_max.min())
    names = ["without memory", f"with memory of {clip} frames", "with memory"]
    figures: dict[str, list[float]] = {f"ideal observer {name}": [] for name in names}
    for _, run in runs.sort_values(DWELL).drop_duplicates(DWELL).iterrows():
        run = run.dropna()  # an earlier run lacks some keys
        knobs = {key: value for key, value in asdict(World()).items() if f"dataset.{key}" in run}
        knobs = {key: type(value)(run[f"dataset.{key}"]) for key, value in knobs.items()}
        scripts = write_scripts(World(**knobs), run.split)
        for recalls, memory in zip(figures.values(), (MEMORYLESS, clip, EVERYTHING), strict=True):
            recalls.append(100 * expected_recall(scripts, memory))
    return figures


def tables(folder: Path) -> str:
    """Tabulate Recall@20 of every way, differences by seed, the predictions, and the control.

    Runs that were read on other videos have tables of their own.
    """
    runs = read_ways(folder)
    blocks, is_once = ["![Recall@20 by horizon](../charts/horizon.svg)"], runs[CUES] == 0
    shown = []
    for split, once in runs[is_once].groupby("split", sort=False):
        blocks += split_tables(once)
        control = runs[~is_once & (runs.split == split) & runs[DWELL].isin(once[DWELL])]
        control = control[control.way.isin(["sampling", "bload"])]
        rates = control[CUES].nunique()
        for (_, rate), again in control.groupby([DWELL, CUES]):
            blocks.append(control_table(once, again, f", {CUES}={rate:g}" if rates > 1 else ""))
        shown += [*once.run[once.way.isin(WAYS)], *control.run]
    missing = [way for way in WAYS if way not in {*runs[is_once].way}]
    return "\n\n".join(blocks) + name_others(runs, shown) + name_missing(missing)


def split_tables(runs: pd.DataFrame) -> list[str]:
    """Tabulate the runs that were read on one split: Recall@20, differences, predictions."""
    horizons = [name_dwell(dwell) for dwell in sorted(runs[DWELL].unique())]
    by_way = runs.groupby(["way", DWELL]).recall
    recall = by_way.apply(lambda seeds: t_interval(seeds).text()).unstack()
    work = runs.groupby("way")[["epochs", "all_steps", "slots", "deleted"]].mean()
    observed = observe(runs).items()
    rows = [[name, *[""] * 4, *map("{:.1f}".format, recalls)] for name, recalls in observed]
    differences = []
    for way in (way for way in WAYS if way in work.index):
        rows.append([way, *map("{:,.0f}".format, work.loc[way]), *recall.loc[way].fillna("")])
        if way != "bload":
            points = subtract(runs, way).T.to_numpy()
            differences.append([f"`bload` minus {way}", *corrected(points)])
        if way == "sampling":
            points = subtract(runs, way, "remembered").T.to_numpy()
            differences.append([f"`bload` minus {way}, needs memory", *corrected(points)])
    predicted = [[words, signed(points)] for words, points in hypotheses(runs).items()]
    heads = ["epochs", "steps", "slots", "deleted per epoch", *horizons]
    return [
        markdown(rows, [f"Recall@20, {name_splits(runs)}; a state lasts", *heads]),
        markdown(differences, ["a state lasts", *horizons]),
        markdown([row for row in predicted if row[1]], ["predicted before the runs", "by, points"]),
    ]


def control_table(once: pd.DataFrame, again: pd.DataFrame, rate: str) -> str:
    """Tabulate what cues that are shown again and again, at a `rate`, leave of the gain."""
    dwell = again[DWELL].iloc[0]
    single, repeated = (subtract(runs, "sampling")[dwell] for runs in (once, again))
    rows = [
        ["shown once", signed(single)],
        [f"shown again and again{rate}", signed(repeated)],
        ["once minus again", signed(single - repeated)],
    ]
    return markdown(rows, [f"states of {name_dwell(dwell)}, cues", "`bload` minus sampling"])


def name_dwell(dwell: float) -> str:
    """Name how long a state lasts."""
    return f"{dwell:g} frames" if dwell < 1000 else "the video"


def draw(folder: Path, figure: Figure) -> None:
    """Draw means over seeds by horizon, between the observers."""
    runs = read_ways(folder).query("`dataset.cue_rate` == 0")
    runs = runs[runs.split.isin(runs.split.mode()[:1])]  # the videos that most were read on
    axis = figure.add_subplot(xlabel="a state lasts", ylabel="Recall@20, %")
    mean = runs.pivot_table("recall", DWELL, "way")
    axis.set_xticks(range(len(mean)), [name_dwell(dwell) for dwell in mean.index])
    nothing, _, everything = observe(runs).items()
    for (name, recall), dashes in ((nothing, ":"), (everything, "--")):
        axis.plot(recall, ls=dashes, color=INK, lw=1.3, label=name)
    for way in (way for way in WAYS if way in mean and way != "ragged"):  # as bload, see the table
        loader, _, option = way.partition(",")
        label = "sampling, fresh clips" if way == "sampling" else way
        look = {"ls": "--", "mfc": "white", "mew": 1.5} if option else {"ls": "-"}
        axis.plot([*mean[way]], marker="o", c=colour_of(loader), label=label, **look)


if __name__ == "__main__":
    title = "Fresh clips lose what a label needs from far back"
    report_runs("horizon", __doc__, tables, draw, title=title, height=4.8)
