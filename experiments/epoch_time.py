"""Time of an epoch of each loader, on a machine whose speed may vary.

    python -m experiments.epoch_time                     # a tenth of each epoch, 5 min on one core
    python -m experiments.epoch_time --share 1           # whole epochs
    python -m experiments.epoch_time dataset.image_size=64 dataset.cache=data/cache
    python -m experiments.epoch_time --experiment epoch_time_quick --rounds 5

`python train.py -m experiment=epoch_time` trains the loaders one after another, each of them for
minutes; what else the machine does meanwhile affects some and not others. Here every loader trains
a network of its own, and all take turns: in each of many rounds every loader works through the same
share of its epoch. Seconds are those of whole training steps, reading and batching included, in
this process. For each loader and round the median step counts: what interrupts a step now and then
interrupts those of all loaders equally often. (The fewer steps a round has, the more of that a
median keeps; a round of naive has four times as many as one of bload.) Written to
runs/epoch_turns/epoch_turns.json, which `python -m experiments.report` reads: its ratios to naive
are geometric means over rounds, with Student t intervals.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from tabulate import tabulate

from experiments.commands import jobs_of, wrong_input_in_one_sentence
from experiments.measured import begin_record, end_record
from experiments.report.results import read_results
from experiments.report.times import turn_times, turns_table
from experiments.turns import Way, take_turns
from training.config import TrainJob, register


def measure(jobs: Sequence[TrainJob], share: float, rounds: int) -> list[dict[str, Any]]:
    """Let the loaders of some jobs take turns; return one row per loader.

    Raises:
        InputError: a loader has no step in some round.
    """
    ways = [Way(job) for job in jobs]
    turns = take_turns(ways, share, rounds)
    return [
        {
            "loader": way.loader.sampler.packer,
            "slots": way.loader.account.processed,
            "steps": way.loader.steps,
            "frames": way.loader.plan.frames,
            "timed_steps": sum(map(len, mine)),
            "seconds_a_step": [median(taken.seconds for taken in turn) for turn in mine],
        }
        for way, mine in zip(ways, turns, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of the config")
    parser.add_argument("--experiment", default="epoch_time")
    parser.add_argument("--share", type=float, default=0.1, help="of each epoch")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("runs/epoch_turns"), help="folder")
    args = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    register()
    with wrong_input_in_one_sentence():
        jobs = [job.config for job in jobs_of([f"experiment={args.experiment}", *args.overrides])]
        record = begin_record("epoch_time", "epoch_turns")
        rows = measure(jobs, args.share, args.rounds)
    dataset: Any = jobs[0].dataset
    setting = (
        f"{rows[0]['frames']:,} frames of {dataset.image_size} pixels, model {jobs[0].model.name}, "
        f"1 thread on cpu, {args.share:.0%} of each epoch"
        f"{', frames decoded before' if dataset.cache else ''}"
    )
    record |= {"setting": setting, "threads": 1, "rows": rows}
    end_record(args.out / "epoch_turns.json", record)
    times = turn_times(read_results(args.out))
    if times:  # naive is among the loaders
        print("\n" + tabulate(turns_table(times).rows, "keys", disable_numparse=True))


if __name__ == "__main__":
    main()
