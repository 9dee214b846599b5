"""Time of an epoch: how much faster than naive padding is each loader?

    export OMP_NUM_THREADS=1                                # 15 minutes on one core, 6 GB
    python -m experiments.epoch_time --measure --share 0.15 --rounds 40 \\
        dataset.image_size=96 dataset.cache=data/cache96
    python -m experiments.epoch_time                        # the tables of what was measured

Each loader trains its own network, and all take turns, since the machine does other things too. The
median step of a round counts, which leaves out occasional interruptions. For what was expected, see
dev/LOG.md, "Protocol of the second timing, written before it was run".
"""

from collections.abc import Sequence

import pandas as pd

from experiments import paper
from experiments.interleaved import add_all_clips, on_ranks, sweep_jobs, time_turns, turn_options
from experiments.intervals import Interval, ratio
from experiments.study import markdown, report_rows
from training.ranks import Ranks


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """Return a row for each loader and round; the loaders take turns in each round."""
    jobs = add_all_clips(sweep_jobs("epoch_time", overrides))
    measured = f"measured, {jobs[0].dataset.frame_size[0]} pixels"
    return [{"measured": measured, **row} for row in time_turns(jobs, ranks, share, rounds)]


def tables(rows: pd.DataFrame) -> str:
    """Tabulate speed over that of naive in each measurement; then steps and their cost."""
    rows = rows[rows.measured.str.startswith("measured")]  # others are of earlier code
    loaders = rows.drop_duplicates("loader").set_index("loader")
    others = [name for name in loaders.index if name != "naive"]
    rows = rows.assign(seconds=rows.seconds_a_step * rows.steps)
    seconds = dict([*rows.groupby(["measured", "loader"], sort=False).seconds])
    measurements, slots = [*rows.measured.unique()], loaders.slots["naive"] / loaders.slots
    faster = [["by slots processed", *(f"{slots[name]:.3f}" for name in others)]]
    for measured in measurements:
        ratios = (ratio(seconds[measured, "naive"], seconds[measured, name]) for name in others)
        faster.append([measured, *(interval.text(2) for interval in ratios)])
    naive, *minutes = (paper.figure(name, "minutes") for name in ("naive", *others))
    faster.append(["the paper", *(Interval(naive / other).text(2) for other in minutes)])
    costs = [
        [
            *(row.Index, f"{row.steps:,}", f"{row.slots:,}", f"{row.frames / row.steps:.0f}"),
            *(f"{1000 * seconds[name, row.Index].mean() / row.steps:.0f}" for name in measurements),
        ]
        for row in loaders.itertuples()
    ]
    heads = [
        "",
        "steps",
        "slots",
        "real frames per step",
        *(f"ms, {name}" for name in measurements),
    ]
    speeds = markdown(faster, ["speed of an epoch, naive = 1", *others])
    return f"{speeds}\n\n{markdown(costs, heads)}"


if __name__ == "__main__":
    options = turn_options(0.1, 20)
    report_rows("epoch_time", __doc__, on_ranks(measure), tables, options, "measured")
