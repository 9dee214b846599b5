"""Ways to train that take turns on one machine, so that changes in its speed affect all alike.

They run in one process, or in each rank that torchrun started, on one thread each.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, product
from typing import Any

import torch

from bload import InputError
from experiments.study import Options
from training.apart import train_apart
from training.config import CONFIGS, TIMEOUT, TrainJob, compose_job
from training.data import open_data
from training.memory import peak_memory_mib, reset_peak_memory, taken_memory, trim_memory
from training.ranks import Ranks, join_ranks, leave_ranks
from training.step import Position, train_step


def turn_options(share: float, rounds: int) -> Options:
    """Return the options of a study whose ways to train take turns, with its defaults."""
    shares = {"share": (share, "of each epoch, in all rounds"), "rounds": (rounds, "of turns")}
    return {"overrides": ([], "of the config"), **shares}


def jobs_of(experiment: str, overrides: Sequence[str]) -> list[TrainJob]:
    """Return the jobs of ``train.py -m experiment=...``, without data workers."""
    from omegaconf import OmegaConf  # here, as the GPU benchmark has no Hydra

    file = OmegaConf.load(CONFIGS / "experiment" / f"{experiment}.yaml")
    varied = {key: str(values) for key, values in file.hydra.sweeper.params.items()}
    given = dict(one.split("=", 1) for one in overrides)
    choices = [given.pop(key, values).split(",") for key, values in varied.items()]
    fixed = [f"experiment={experiment}", "train.workers=0"]
    fixed += [f"{key}={value}" for key, value in given.items()]
    return [
        compose_job("train", [*fixed, *map("=".join, zip(varied, values, strict=True))])
        for values in product(*choices)
    ]


def on_ranks(measure: Callable[..., list[dict]]) -> Callable[..., list[dict]]:
    """Run `measure` on the ranks that torchrun started, or on one; rank 0 returns its rows."""

    def measure_here(**options: Any) -> list[dict]:
        torch.set_num_threads(1)
        ranks = join_ranks("cpu", TIMEOUT)
        rows = measure(ranks, **options)
        leave_ranks()
        return rows if ranks.is_first else []

    return measure_here


@dataclass(slots=True)
class Turn:
    """The steps that a way took in one turn.

    Attributes: `frames` of all ranks, without padding; `busy`, this process's processor seconds,
    without waiting for other ranks; `peak_mib`, peak memory above that before the turn.
    """

    frames: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    peak_mib: float = 0.0


class Way:
    """One config's loader, with a network of its own, stepped on demand."""

    def __init__(self, cfg: TrainJob, ranks: Ranks) -> None:
        data = open_data(cfg, ranks)
        self.cfg, self.ranks, self.loader = cfg, ranks, data.loader
        torch.manual_seed(cfg.train.seed)
        one_shape = self.loader.plan.has_one_size and cfg.model.padding == "computed"
        self.training = train_apart(cfg, data.source, ranks, one_shape)
        self.steps = self.loader.by_step()
        self.take(2)  # the first steps are slower
        self.steps = self.loader.by_step()

    def take(self, steps: int) -> Turn:
        """Take so many steps; their times include reading and batching."""
        device, turn = self.ranks.device, Turn()
        trim_memory()
        before = taken_memory(device) / 2**20
        reset_peak_memory(device)
        self.ranks.barrier()
        began, busy = time.perf_counter(), time.process_time()
        for batches in islice(self.steps, steps):
            position = Position(0, self.loader.step - 1, self.loader.steps)
            train_step(self.training, batches, position)
            now, worked = time.perf_counter(), time.process_time()
            turn.frames.append(batches[0].frames_in_step)
            turn.seconds.append(now - began)
            turn.busy.append(worked - busy)
            began, busy = now, worked
        turn.peak_mib = peak_memory_mib(device) - before
        return turn


def steps_by_round(steps: int, share: float, rounds: int) -> list[int]:
    """Spread `share` of all steps evenly over rounds; InputError if a round has none."""
    ends = [round(share * steps * done / rounds) for done in range(rounds + 1)]
    found = [end - begin for begin, end in pairwise(ends)]
    if min(found) < 1:
        raise InputError("a round has no step; give a larger --share or fewer --rounds")
    return found


def take_turns(ways: Sequence[Way], share: float, rounds: int) -> list[list[Turn]]:
    """Let every way take a turn in each round, `share` of its epoch in all; return all turns."""
    counts = [steps_by_round(way.loader.steps, share, rounds) for way in ways]
    turns: list[list[Turn]] = [[] for _ in ways]
    for number in range(rounds):
        for way, steps, mine in zip(ways, counts, turns, strict=True):
            mine.append(way.take(steps[number]))
    return turns
