"""Block size: what are shorter and longer blocks worth?

    python train.py experiment=tmax_sweep                # 25 runs of 5 to 7 minutes
    python -m experiments.tmax_sweep [FOLDER]

`bload_exact` fills blocks of any size, so that all sizes have 87 or 88 steps an epoch. Below the
longest video, 86 frames, videos are split and the state is cleared at each cut. Sizes are judged by
Recall@20 less that at 86, by seed, with Holm's correction (docs/LOG.md, "The headline, again").
Seconds are left out, since other jobs ran at the same time.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bload.show.draw import INK, colour_of
from experiments.intervals import corrected, student
from experiments.runs import read_on, read_runs
from experiments.study import markdown, study


def tables(folder: Path) -> str:
    """Tabulate padding beside the least possible, and Recall@20, by `T_max`."""
    runs = read_runs(folder, "tmax_sweep")
    recall = runs.pivot(index="train.seed", columns="t_max", values="recall")
    middle, rows = recall.columns[recall.shape[1] // 2], []
    others = recall.columns.drop(middle)
    less = dict(zip(others, corrected(recall[t] - recall[middle] for t in others), strict=True))
    for t_max, mean in runs.groupby("t_max").mean(numeric_only=True).iterrows():
        fewest = np.ceil((mean.frames + mean.deleted) / t_max)
        least = fewest * t_max - mean.frames - mean.deleted
        counts = (mean.all_steps, mean.slots, mean.blocks, fewest, mean.padding, least)
        texts = [f"{of:,.0f}" for of in (t_max, *counts, mean.peak_memory_mib)]
        rows.append([*texts, student(recall[t_max]).text(), less.get(t_max, "")])
    heads = ["`T_max`", "steps", "slots", "blocks", "fewest possible", "padded", "least possible"]
    heads += ["peak MiB", f"Recall@20, {read_on(runs)}", f"less that at {middle:.0f}"]
    chart = "![Recall@20 and padding by block size](charts/tmax_sweep.svg)"
    return f"{chart}\n\n{markdown(rows, heads, words=0)}"


def draw(folder: Path, figure: Figure) -> None:
    """Draw Recall@20 of seeds, with mean and interval, and the padding, by `T_max`."""
    left, right = figure.subplots(1, 2)
    left.set(ylabel="Recall@20, %", xlabel="T_max, slots")
    right.set(ylabel="padded slots per epoch", xlabel="T_max, slots")
    for t_max, mine in read_runs(folder, "tmax_sweep").groupby("t_max"):
        size, recall, colour = f"{t_max:.0f}", student(mine.recall), colour_of("bload_exact")
        left.errorbar(size, recall.mean, recall.high - recall.mean, marker="o", color=colour)
        left.plot([size] * len(mine), mine.recall, "_", color=INK, mew=1.5)
        right.bar(size, mine.padding.mean(), 0.6, color=colour)


if __name__ == "__main__":
    title = "The size of a block hardly changes Recall@20"
    study("tmax_sweep", __doc__, tables, draw, title=title, height=3.2)
