"""Ways to train that take turns on one machine, so that changes in its speed affect all alike.

They run in one process, or in each rank that torchrun started, on one thread each.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from statistics import median
from typing import Any

import torch
from omegaconf import OmegaConf

from bload import Cost, InputError
from experiments.study import name_way
from training.build import open_training
from training.compose import compose_job, sweep_lines
from training.config import CONFIGS, ProcessConfig, TrainJob
from training.data import open_data
from training.ranks import Ranks, join_ranks, peak_memory_mib, reset_peak_memory
from training.step import StepPosition, train_step

ALONE = Ranks(0, 1, torch.device("cpu"))
"""The only rank of a process on the CPU."""


def sweep_jobs(experiment: str, overrides: Sequence[str], base: str) -> list[TrainJob]:
    """Return the jobs of ``train.py experiment=...``, without data workers.

    Raises:
        InputError: none has the loader `base`, with which the others are compared.
    """
    file = OmegaConf.load(CONFIGS / "experiment" / f"{experiment}.yaml")
    lines = sweep_lines(file.hydra.sweeper.params, ["train.workers=0", *overrides])
    jobs = [compose_job("train", [f"experiment={experiment}", *line]) for line in lines]
    if base not in {job.loader.name for job in jobs}:
        raise InputError(f"{experiment} compares with {base}; give it among loader=")
    return jobs


def add_all_clips(jobs: Sequence[TrainJob]) -> list[TrainJob]:
    """Return the jobs, each of `sampling` followed by one with all whole clips of a video."""
    added = []
    for job in jobs:
        added.append(job)
        if job.loader.name == "sampling":
            clips: dict[str, Any] = {"clips": "all"}  # a key of sampling's config alone
            added.append(replace(job, loader=replace(job.loader, **clips)))
    return added


def on_ranks(measure: Callable[..., list[dict]]) -> Callable[..., list[dict]]:
    """Run `measure` on the ranks that torchrun started, or on one; rank 0 returns its rows."""

    def measure_on_ranks(**options: Any) -> list[dict]:
        torch.set_num_threads(1)
        ranks = join_ranks("cpu", ProcessConfig.timeout)
        rows = measure(ranks, **options)
        return rows if ranks.is_first else []

    return measure_on_ranks


@dataclass(slots=True)
class Timing:
    """The steps that a contender took in one turn.

    Attributes: `frames` of all ranks, without padding; `waiting`, the seconds before steps, for
    data; `peak_mib`, the peak memory of the hungriest rank above that before the turn.
    """

    frames: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    waiting: float = 0.0
    peak_mib: float = 0.0

    @property
    def frames_per_second(self) -> float:
        return sum(self.frames) / sum(self.seconds)


class Contender:
    """One config's loader, with a network of its own, stepped on demand."""

    def __init__(self, cfg: TrainJob, ranks: Ranks = ALONE) -> None:
        data = open_data(cfg, ranks)
        self.cfg, self.ranks, self.loader = cfg, ranks, data.loader
        self.training = open_training(cfg, ranks, data)
        self.steps = self.loader.by_step()
        self.take_steps(2)  # the first steps are slower
        self.steps = self.loader.by_step()

    def take_steps(self, count: int) -> Timing:
        """Take so many steps; their times include reading and batching."""
        device, timing = self.ranks.device, Timing()
        memory_before = reset_peak_memory(device) / 2**20
        self.ranks.barrier()
        began = time.perf_counter()
        for batches in islice(self.steps, count):
            timing.waiting += time.perf_counter() - began
            train_step(self.training, batches, StepPosition.after(self.loader))
            time_now = time.perf_counter()
            timing.frames.append(batches[0].frames_in_step)
            timing.seconds.append(time_now - began)
            began = time_now
        timing.peak_mib = max(self.ranks.gather(peak_memory_mib(device) - memory_before))
        return timing


def steps_by_round(steps: int, share: float, rounds: int) -> list[int]:
    """Spread `share` of all steps evenly over rounds; InputError if a round has none."""
    ends = [round(share * steps * done / rounds) for done in range(rounds + 1)]
    counts = [end - begin for begin, end in pairwise(ends)]
    if min(counts) < 1:
        raise InputError("a round has no step; give a larger --share or fewer --rounds")
    return counts


def way_of(cfg: TrainJob) -> tuple[str, str]:
    """Return what tells a job from others in tables: its loader and its padding."""
    padding = "skipped" if cfg.model.skip_padding else "computed"
    return name_way(cfg.loader.name, vars(cfg.loader).get("clips")), padding


def time_turns(jobs: Sequence[TrainJob], ranks: Ranks, share: float, rounds: int) -> list[dict]:
    """Let a contender for each job take a turn in each round, `share` of its epoch in all.

    Returns a row for each job and round; InputError if two jobs are of one way.
    """
    ways = [*map(way_of, jobs)]
    if len({*ways}) < len(ways):
        raise InputError("tables tell apart loaders and padding only; give other keys one value")
    contenders = [Contender(job, ranks) for job in jobs]
    counts = [steps_by_round(one.loader.account.steps, share, rounds) for one in contenders]
    timings: list[list[Timing]] = [[] for _ in contenders]
    for number in range(rounds):
        for contender, steps, turns in zip(contenders, counts, timings, strict=True):
            turns.append(contender.take_steps(steps[number]))
    rows = []
    for contender, (name, padding), turns in zip(contenders, ways, timings, strict=True):
        loader, skips = contender.loader, contender.cfg.model.skip_padding
        account = loader.account
        columns = {
            "loader": name,
            "padding": padding,
            "ranks": ranks.world_size,
            "slots": account.processed,
            "padded": account.padding,
            "deleted": account.deleted,
            "frames": account.frames,
            "steps": account.steps,
            "imbalance": loader.sampler.schedule.imbalance(Cost(0, 1) if skips else Cost()),
            "one_shape": loader.sampler.plan.has_one_size and not skips,
        }
        for number, turn in enumerate(turns, start=1):
            row: dict = {"round": number, "timed_steps": len(turn.seconds)}
            row |= {"seconds_a_step": median(turn.seconds), "peak_mib": turn.peak_mib}
            rows.append({**columns, **row, "frames_per_second": turn.frames_per_second})
    return rows
