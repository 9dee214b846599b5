"""Time of an epoch of each loader, on a machine whose speed may vary.

    export OMP_NUM_THREADS=1                                # 20 minutes on one core, 5 GB
    python -m experiments.epoch_time --measure --share 0.15 --rounds 40 \\
        dataset.image_size=96 dataset.cache=data/cache96
    python -m experiments.epoch_time                        # the tables of what was measured

Loaders that train one after another, each for minutes, meet a machine that does other things
meanwhile. Here every loader trains a network of its own, and all take turns: in each round every
one works through the same share of its epoch. Seconds are those of whole training steps, reading
included. For each loader and round the median step counts: what interrupts a step now and then
interrupts those of all loaders equally often. (The fewer steps a round has, the more of that a
median keeps; a round of naive has four times as many as one of bload.) Ratios to naive are
geometric means over rounds.

By slots no packing can be more than 4.205 times faster; the paper says 170 / 41 = 4.15. What was
expected is in docs/LOG.md, "Protocol of the second timing, written before it was run".
"""

from collections.abc import Sequence
from statistics import median

import pandas as pd

from bload.paper import PAPER
from experiments.interleaved import Way, jobs_of, on_ranks, take_turns
from experiments.intervals import ratio
from experiments.study import markdown, measuring, publish, read_rows
from training.ranks import Ranks


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """A row for each loader and round, in which all have taken turns."""
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
    """Times faster than naive in each measurement; then the steps that this is about."""
    rows = rows.assign(seconds=rows.seconds_a_step * rows.steps)
    known = rows.drop_duplicates("loader").set_index("loader")
    loaders = [*known.index]
    others = [name for name in loaders if name != "naive"]
    seconds = {key: of.seconds for key, of in rows.groupby(["measured", "loader"], sort=False)}
    measured = [*rows.measured.unique()]
    by_slots = known.slots["naive"] / known.slots
    papers = [PAPER[name].minutes if name in PAPER else None for name in others]
    faster = [["by slots processed", *(f"{by_slots[name]:.3f}" for name in others)]]
    for one in measured:
        found = [ratio(seconds[one, "naive"], seconds[one, name], by_pair=True) for name in others]
        faster.append([one, *(of.text(2) for of in found)])
    naive = PAPER["naive"].minutes or 0
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


def main() -> None:
    parser = measuring("epoch_time", __doc__)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of the config")
    parser.add_argument("--share", type=float, default=0.1, help="of each epoch, in all rounds")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_intermixed_args()
    if args.measure:
        options = (args.overrides, args.share, args.rounds)
        on_ranks(lambda ranks: measure(ranks, *options), args.file, "measured")
    else:
        found = tables(read_rows(args.file))
        publish("epoch_time", found, committed=args == parser.parse_args([]))


if __name__ == "__main__":
    main()
