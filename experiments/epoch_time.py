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

from experiments.interleaved import add_all_clips, on_ranks, sweep_jobs, time_turns, turn_options
from experiments.intervals import Interval, ratio
from experiments.study import markdown, report_rows
from training import paper
from training.ranks import Ranks


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """Return a row for each loader and round; the loaders take turns in each round."""
    jobs = add_all_clips(sweep_jobs("epoch_time", overrides))
    measured = f"measured, {jobs[0].dataset.frame_size[0]} pixels"
    return [{"measured": measured, **row} for row in time_turns(jobs, ranks, share, rounds)]


def speeds(rows: pd.DataFrame) -> dict[str, dict[str, Interval]]:
    """Return measurement -> loader -> how many times as fast as naive's its epoch is."""
    measured = {}
    for name, rounds in rows.groupby("measured", sort=False):
        seconds = dict([*(rounds.seconds_a_step * rounds.steps).groupby(rounds.loader)])
        measured[name] = {
            loader: ratio(seconds["naive"], turns) for loader, turns in seconds.items()
        }
    return measured


def tables(rows: pd.DataFrame) -> str:
    """Tabulate speed over that of naive in each measurement; then steps and their cost.

    A loader that a measurement left out has an empty cell there.
    """
    rows = rows[rows.measured.str.startswith("measured")]  # others are of earlier code
    loaders = rows.drop_duplicates("loader").set_index("loader")
    others = [name for name in loaders.index if name != "naive"]
    slots, measured = loaders.slots["naive"] / loaders.slots, speeds(rows)
    faster = [["by slots processed", *(f"{slots[name]:.3f}" for name in others)]]
    for name, ratios in measured.items():
        faster.append(
            [name, *(ratios[other].text(2) if other in ratios else "" for other in others)]
        )
    faster.append(["the paper", *(paper.cell(name, "speed") for name in others)])
    milliseconds = 1000 * rows.groupby(["measured", "loader"]).seconds_a_step.mean()
    costs = [
        [
            *(row.Index, f"{row.steps:,}", f"{row.slots:,}", f"{row.frames / row.steps:.0f}"),
            *(
                f"{milliseconds[name, row.Index]:.0f}" if row.Index in ratios else ""
                for name, ratios in measured.items()
            ),
        ]
        for row in loaders.itertuples()
    ]
    heads = ["", "steps", "slots", "real frames per step", *(f"ms, {name}" for name in measured)]
    speed = markdown(faster, ["speed of an epoch, naive = 1", *others])
    return f"{speed}\n\n{markdown(costs, heads)}"


if __name__ == "__main__":
    options = turn_options(0.1, 20)
    report_rows("epoch_time", __doc__, on_ranks(measure), tables, options, "measured")
