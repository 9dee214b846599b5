"""Time of an epoch: how much faster than naive padding is each loader?

    python train.py experiment=epoch_time                # the loaders one after another
    export OMP_NUM_THREADS=1                                # 20 minutes on one core, 5 GB
    python -m experiments.epoch_time --measure --share 0.15 --rounds 40 \\
        dataset.image_size=96 dataset.cache=data/cache96
    python -m experiments.epoch_time                        # the tables of what was measured

Each loader trains its own network, and all take turns, since the machine does other things too: in
each round every loader works through the same share of its epoch. Seconds are those of whole
training steps, reading included. For each loader and round the median step counts; it leaves out
occasional interruptions, and more of them the more steps there are (naive has four times those of
bload). Ratios to naive are geometric means over rounds. For what was expected, see docs/LOG.md,
"Protocol of the second timing, written before it was run".
"""

from collections.abc import Sequence
from statistics import median

import pandas as pd

from experiments import paper
from experiments.interleaved import Way, jobs_of, on_ranks, take_turns, turn_options
from experiments.intervals import ratio
from experiments.study import markdown, measuring
from training.ranks import Ranks


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """Return a row for each loader and round; the loaders take turns in each round."""
    jobs = jobs_of("epoch_time", overrides)
    ways = [Way(job, ranks) for job in jobs]
    return [
        {
            "measured": f"measured, {jobs[0].dataset.frame_size[0]} pixels",
            "loader": way.cfg.loader.name,
            "ranks": ranks.world_size,
            "slots": way.loader.account.processed,
            "steps": way.loader.steps,
            "frames": way.loader.account.frames,
            "round": number,
            "timed_steps": len(turn.seconds),
            "seconds_a_step": median(turn.seconds),
        }
        for way, turns in zip(ways, take_turns(ways, share, rounds), strict=True)
        for number, turn in enumerate(turns, start=1)
    ]


def tables(rows: pd.DataFrame) -> str:
    """Tabulate times faster than naive in each measurement; then steps and their cost."""
    rows = rows.assign(seconds=rows.seconds_a_step * rows.steps)
    known = rows.drop_duplicates("loader").set_index("loader")
    loaders = [*known.index]
    others = [name for name in loaders if name != "naive"]
    seconds = {key: of.seconds for key, of in rows.groupby(["measured", "loader"], sort=False)}
    measured = [*rows.measured.unique()]
    by_slots = known.slots["naive"] / known.slots
    papers = [paper.figure(name, "minutes") for name in others]
    faster = [["by slots processed", *(f"{by_slots[name]:.3f}" for name in others)]]
    for one in measured:
        found = [ratio(seconds[one, "naive"], seconds[one, name]) for name in others]
        faster.append([one, *(of.text(2) for of in found)])
    naive = paper.figure("naive", "minutes") or 0
    faster.append(["the paper", *(f"{naive / of:.2f}" if of else "" for of in papers)])
    costs = [
        [
            name,
            *(f"{known[of][name]:,}" for of in ("steps", "slots")),
            f"{known.frames[name] / known.steps[name]:.0f}",
            *(f"{1000 * seconds[one, name].mean() / known.steps[name]:.0f}" for one in measured),
        ]
        for name in loaders
    ]
    heads = ["", "steps", "slots", "real frames per step", *(f"ms, {one}" for one in measured)]
    return f"{markdown(faster, ['times faster than naive', *others])}\n\n{markdown(costs, heads)}"


if __name__ == "__main__":
    measuring("epoch_time", __doc__, on_ranks(measure), tables, turn_options(0.1, 20), "measured")
