"""Block size: what are shorter and longer blocks worth?

    python train.py experiment=tmax_sweep                   # 25 runs of 5 to 7 minutes
    python -m experiments.tmax_sweep [FOLDER]

`bload_exact` fills blocks of any size, so that all sizes have 87 or 88 steps an epoch. Sizes are
judged by Recall@20 minus that at 86, the longest video, by seed, with Holm's correction
(dev/LOG.md, "The headline, again").
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bload.show.draw import INK, colour_of
from experiments.intervals import corrected, student
from experiments.runs import name_splits, read_runs
from experiments.study import markdown, report_runs


def tables(folder: Path) -> str:
    """Tabulate padding beside the least possible, and Recall@20, by `T_max`."""
    runs, rows = read_runs(folder), []
    recall = runs.pivot(index="train.seed", columns="t_max", values="recall")
    middle = recall.columns[recall.shape[1] // 2]
    other_sizes = recall.columns.drop(middle)
    differences = dict(
        zip(other_sizes, corrected(recall[t] - recall[middle] for t in other_sizes), strict=True)
    )
    for t_max, mean in runs.groupby("t_max").mean(numeric_only=True).iterrows():
        slots_needed = mean.frames + mean.deleted
        fewest = np.ceil(slots_needed / t_max)
        row = [t_max, mean.all_steps, mean.slots, mean.blocks, fewest, mean.padding]
        row += [fewest * t_max - slots_needed, mean.peak_memory_mib]
        reached = student(recall[t_max]).text()
        rows.append([*map("{:,.0f}".format, row), reached, differences.get(t_max, "")])
    heads = ["`T_max`", "steps", "slots", "blocks", "bound", "padded", "padded at the bound"]
    heads += ["peak MiB", f"Recall@20, {name_splits(runs)}", f"minus that at {middle:.0f}"]
    chart = "![Recall@20 and padding by block size](../charts/tmax_sweep.svg)"
    return f"{chart}\n\n{markdown(rows, heads, words=0)}"


def draw(folder: Path, figure: Figure) -> None:
    """Draw Recall@20 of seeds, with mean and interval, and the padding, by `T_max`."""
    recalls, padding = figure.subplots(1, 2)
    recalls.set(ylabel="Recall@20, %", xlabel="T_max, slots")
    padding.set(ylabel="padded slots per epoch", xlabel="T_max, slots")
    for t_max, runs in read_runs(folder).groupby("t_max"):
        size, recall, colour = f"{t_max:.0f}", student(runs.recall), colour_of("bload_exact")
        recalls.errorbar(size, recall.mean, recall.high - recall.mean, marker="o", color=colour)
        recalls.plot([size] * len(runs), runs.recall, "_", color=INK, mew=1.5)
        padding.bar(size, runs.padding.mean(), 0.6, color=colour)


if __name__ == "__main__":
    title = "The size of a block hardly changes Recall@20"
    report_runs("tmax_sweep", __doc__, tables, draw, title=title, height=3.2)
