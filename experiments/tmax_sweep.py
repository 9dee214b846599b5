"""Block size: what are shorter and longer blocks worth?

    python train.py experiment=tmax_sweep                   # 50 runs of 4 to 7 minutes
    python -m experiments.tmax_sweep [FOLDER]

`bload` and `bload_exact`; videos longer than a block are split. Sizes are judged by Recall@20 minus
that at the middle one, 86, the longest video, by seed, with Holm's correction within a loader
(dev/LOG.md, "The headline, again").
"""

from pathlib import Path

import numpy as np

from experiments.intervals import corrected, t_interval
from experiments.runs import name_splits, read_runs, refuse_mixtures
from experiments.study import RESULTS, markdown, name_missing, report_runs


def tables(folder: Path) -> str:
    """Tabulate padding beside the least possible, deletion and Recall@20, by loader and `T_max`.

    Seconds of an epoch are left out of the committed runs, which trained beside other work.
    """
    runs, rows = refuse_mixtures(read_runs(folder), "loader.name", "t_max"), []
    timed = folder != RESULTS / "tmax_sweep"
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
            reached = t_interval(recall[t_max]).text(), differences.get(t_max, "")
            seconds = [f"{mean.epoch_seconds:,.1f}"] * timed
            rows.append([loader, *map("{:,.0f}".format, row), *seconds, *reached])
    heads = ["", "`T_max`", "steps", "slots", "blocks", "bound", "padded", "padded at the bound"]
    heads += ["deleted", "peak MiB", *["seconds per epoch"] * timed]
    heads += [f"Recall@20, {name_splits(runs)}", "minus that at the middle size"]
    missing = [name for name in ("bload", "bload_exact") if name not in {*runs["loader.name"]}]
    return markdown(rows, heads) + name_missing(missing)


if __name__ == "__main__":
    report_runs("tmax_sweep", __doc__, tables)
