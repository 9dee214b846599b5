"""Block size: what are shorter and longer blocks worth?

    python train.py experiment=tmax_sweep                   # 50 runs of 5 to 7 minutes
    python -m experiments.tmax_sweep [FOLDER]

`bload` and `bload_exact`; videos longer than a block are split. Sizes are judged by Recall@20 minus
that at the middle one, 86, the longest video, by seed, with Holm's correction within a loader
(dev/LOG.md, "The headline, again").
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bload.show.draw import colour_of
from experiments.intervals import corrected, student
from experiments.runs import name_splits, read_runs
from experiments.study import RESULTS, markdown, report_runs


def tables(folder: Path) -> str:
    """Tabulate padding beside the least possible, deletion and Recall@20, by loader and `T_max`.

    Seconds are those of a user's own runs: the committed ones ran beside other work.
    """
    runs, rows, timed = read_runs(folder), [], RESULTS not in folder.resolve().parents
    for loader, sweep in runs.groupby("loader.name"):
        recall = sweep.pivot_table("recall", "train.seed", "t_max")
        middle = recall.columns[recall.shape[1] // 2]
        others = recall.columns.drop(middle)
        gains = corrected(recall[t_max] - recall[middle] for t_max in others)
        differences = dict(zip(others, gains, strict=True))
        for t_max, mean in sweep.groupby("t_max").mean(numeric_only=True).iterrows():
            fewest = np.ceil(mean.frames / t_max)
            row = [t_max, mean.all_steps, mean.slots, mean.blocks, fewest, mean.padding]
            row += [fewest * t_max - mean.frames, mean.deleted, mean.peak_memory_mib]
            row += [mean.epoch_seconds] * timed
            reached = student(recall[t_max]).text(), differences.get(t_max, "")
            rows.append([loader, *map("{:,.0f}".format, row), *reached])
    heads = ["", "`T_max`", "steps", "slots", "blocks", "bound", "padded", "padded at the bound"]
    heads += ["deleted", "peak MiB", *["seconds per epoch"] * timed]
    heads += [f"Recall@20, {name_splits(runs)}", "minus that at the middle size"]
    chart = "![Recall@20 and padding by block size](../charts/tmax_sweep.svg)"
    return f"{chart}\n\n{markdown(rows, heads)}"


def draw(folder: Path, figure: Figure) -> None:
    """Draw Recall@20 with its interval, and the padding, by `T_max`."""
    recalls, padding = figure.subplots(1, 2)
    recalls.set(ylabel="Recall@20, %", xlabel="T_max, slots")
    padding.set(ylabel="padded slots per epoch", xlabel="T_max, slots")
    runs = read_runs(folder)
    for place, (loader, sweep) in enumerate(runs.groupby("loader.name")):
        for t_max, seeds in sweep.groupby("t_max"):
            recall, colour = student(seeds.recall), colour_of(loader)
            label = loader if t_max == sweep.t_max.min() else None
            half, at = recall.high - recall.mean, [*sorted({*runs.t_max})].index(t_max) + place / 5
            recalls.errorbar(at, recall.mean, half, marker="o", color=colour, label=label)
            padding.bar(at, seeds.padding.mean(), 0.2, color=colour)
    for axis in (recalls, padding):
        axis.set_xticks(range(runs.t_max.nunique()), map(str, sorted({*runs.t_max})))


if __name__ == "__main__":
    title = "The size of a block hardly changes Recall@20"
    report_runs("tmax_sweep", __doc__, tables, draw, title=title, height=3.2)
