"""How long an epoch of each loader takes, on a machine whose speed may vary.

    python -m experiments.epoch_time                     # a tenth of each epoch, 5 min on one core
    python -m experiments.epoch_time --share 1           # whole epochs
    python -m experiments.epoch_time dataset.image_size=64 dataset.cache=data/cache
    python -m experiments.epoch_time --experiment epoch_time_quick --rounds 5

`python train.py -m experiment=epoch_time` trains the loaders one after another, each of them for
minutes; what else the machine does meanwhile meets some and not others. Here every loader trains a
network of its own, and all take turns: in each of many rounds every loader works through the same
share of its epoch. Seconds are those of whole training steps, reading and batching included, in
this process. Of a loader's steps in one round the median counts: what interrupts a step now and
then meets all loaders as often. (The fewer steps a round, the more of it a median keeps; a round of
naive has four times as many as one of BLoad.) Written to runs/epoch_turns/epoch_turns.json, which
`python -m experiments.report` reads: its ratios to naive are geometric means over rounds, Student t
intervals.
"""

import argparse
import json
import shlex
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import torch
from tabulate import tabulate

from bload import BlockLoader
from datasets.build import build_source
from experiments.config import NOT_COMPUTED, register, without
from experiments.optimiser import build_optimiser
from experiments.provenance import now, surroundings
from experiments.report.results import read_results
from experiments.report.times import turn_times, turns_table
from experiments.sweep import jobs_of
from models import Criterion, build_model, counts, to_tensors


class Training:
    """A loader, a network and an optimiser, stepped on demand."""

    def __init__(self, config: dict) -> None:
        self.job, self.queries = config["train"], config["model"]["queries"]
        self.source = build_source("train", progress=True, **config["dataset"])
        self.loader = BlockLoader(
            self.source,
            config["loader"]["name"],
            batch_frames=self.job["batch_frames"],
            seed=self.job["seed"],
            workers=0,
            **without(config["loader"], "name"),
        )
        torch.manual_seed(self.job["seed"])
        self.model = build_model(**without(config["model"], "name", *NOT_COMPUTED))
        self.criterion = Criterion(**config["loss"])
        rates = (self.job[key] for key in ("lr", "backbone_lr", "weight_decay"))
        self.optimiser = build_optimiser(self.model, *rates)
        self.batches = iter(self.loader)

    def seconds(self, steps: int) -> list[float]:
        """What each of so many steps takes."""
        times = [time.perf_counter()]
        for _ in range(steps):
            self._step()
            times.append(time.perf_counter())
        return [end - begin for begin, end in pairwise(times)]

    def _step(self) -> None:
        batch = next(self.batches)
        targets = to_tensors(batch.targets, torch.device("cpu"))
        outputs = self.model(batch.frames_BT, batch.start_BT, batch.valid_BT)
        total = counts(targets, self.queries)
        losses = self.criterion(outputs, targets, batch.valid_BT, total)
        self.optimiser.zero_grad()
        losses["loss"].backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.job["clip_norm"])
        self.optimiser.step()


def steps_by_round(steps: int, share: float, rounds: int) -> list[int]:
    """The steps of each round: `share` of all, spread evenly."""
    ends = [round(share * steps * done / rounds) for done in range(rounds + 1)]
    return [end - begin for begin, end in pairwise(ends)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of the config")
    parser.add_argument("--experiment", default="epoch_time")
    parser.add_argument("--share", type=float, default=0.1, help="of each epoch")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", default="runs/epoch_turns", help="the folder to write to")
    args = parser.parse_intermixed_args()
    began = now()
    torch.set_num_threads(args.threads)
    register()
    jobs = jobs_of([f"experiment={args.experiment}", *args.overrides])
    trainings = {job.config["loader"]["name"]: Training(job.config) for job in jobs}
    steps = {
        name: steps_by_round(len(one.loader), args.share, args.rounds)
        for name, one in trainings.items()
    }
    if min(map(min, steps.values())) < 1:
        parser.error("a round without a step; give a larger --share or fewer --rounds")
    for one in trainings.values():
        one.seconds(2)  # the first steps are slower
        one.batches = iter(one.loader)
    taken: dict[str, list[list[float]]] = {name: [] for name in trainings}
    for turn in range(args.rounds):
        for name, one in trainings.items():
            taken[name].append(one.seconds(steps[name][turn]))

    rows = [
        {
            **{"loader": name, "slots": one.loader.account.processed, "steps": len(one.loader)},
            **{"frames": int(one.source.lengths.sum()), "timed_steps": sum(steps[name])},
            "seconds_a_step": [median(times) for times in taken[name]],
            "mean_seconds_a_step": [fmean(times) for times in taken[name]],
        }
        for name, one in trainings.items()
    ]
    threads = f"{args.threads} thread{'s' if args.threads > 1 else ''}"
    setting = (
        f"{rows[0]['frames']:,} frames of {jobs[0].config['dataset']['image_size']} pixels, model "
        f"{jobs[0].config['model']['name']}, {threads} on cpu, {args.share:.0%} of each epoch"
        f"{', frames decoded before' if jobs[0].config['dataset']['cache'] else ''}"
    )
    command = shlex.join(["python", "-m", "experiments.epoch_time", *sys.argv[1:]])
    ended = now()
    record = {"name": "epoch_turns", "setting": setting, "command": command, **surroundings()}
    record |= {"threads": args.threads, "started": began, "ended": ended, "rows": rows}
    path = Path(args.out) / "epoch_turns.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(tabulate(turns_table(turn_times(read_results(path.parent))).rows, "keys"))
    print(f"\n{path}")


if __name__ == "__main__":
    main()
