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

from bload import InputError
from experiments.interleaved import add_all_clips, on_ranks, sweep_jobs, time_turns
from experiments.intervals import Interval, ratio
from experiments.study import markdown, report_rows
from training import paper_figures
from training.ranks import Ranks


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """Return a row for each loader and round; the loaders take turns in each round."""
    jobs = add_all_clips(sweep_jobs("epoch_time", overrides, "naive"))
    if len({job.model.skip_padding for job in jobs}) > 1:
        raise InputError("this table does not show model.skip_padding; give it one value")
    pixels = jobs[0].dataset.frame_size[0]
    return [{"pixels": pixels, **row} for row in time_turns(jobs, ranks, share, rounds)]


def speeds(rows: pd.DataFrame) -> dict[str, Interval]:
    """Return loader -> how many times as fast as naive's its epoch is."""
    seconds = dict([*(rows.seconds_a_step * rows.steps).groupby(rows.loader)])
    return {loader: ratio(seconds["naive"], turns) for loader, turns in seconds.items()}


def tables(rows: pd.DataFrame) -> str:
    """Tabulate speed over that of naive; then steps and their cost."""
    loaders = rows.drop_duplicates("loader").set_index("loader")
    others, slots, faster = loaders.index.drop("naive"), loaders.slots, speeds(rows)
    measured = f"measured, {rows.pixels[0]} pixels"
    speed = [
        ["by slots processed", *(f"{slots.naive / slots[name]:.3f}" for name in others)],
        [measured, *(faster[name].text(2) for name in others)],
        ["the paper", *(paper_figures.cell(name, "speed") for name in others)],
    ]
    loaders["ms"] = 1000 * rows.groupby("loader").seconds_a_step.mean()
    costs = [
        [name, f"{row.steps:,}", f"{row.slots:,}", f"{row.frames / row.steps:.0f}", f"{row.ms:.0f}"]
        for name, row in loaders.iterrows()
    ]
    heads = ["", "steps", "slots", "real frames per step", f"ms, {measured}"]
    table = markdown(speed, ["speed of an epoch, naive = 1", *others])
    return f"{table}\n\n{markdown(costs, heads)}"


if __name__ == "__main__":
    report_rows("epoch_time", __doc__, on_ranks(measure), tables, turns=(0.1, 20))
