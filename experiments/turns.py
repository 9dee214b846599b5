"""Ways to train that take turns on one machine, so that its changing speed meets all alike."""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bload import BlockLoader, InputError
from datasets.build import build_letterbox, build_source
from experiments.rank_pair import RANKS, Reporter, run_pair
from experiments.sequences import meet
from models import build_criterion
from training.build import build_network, build_training
from training.config import TrainJob
from training.fit import find_cost
from training.memory import peak_memory_mib, reset_peak_memory, taken_memory, trim_memory
from training.ranks import Ranks
from training.step import train_step

CPU = torch.device("cpu")
ALONE = Ranks(0, 1, CPU)
PATIENCE = 600.0
"""Seconds that a rank waits for the other."""
Rows = list[dict[str, Any]]
Job = Callable[[Ranks], Rows]


@dataclass(frozen=True, slots=True)
class Taken:
    """One step."""

    frames: int
    """Of all ranks."""
    seconds: float
    busy: float
    """Seconds of the processor in this process, without those that it waits for another rank."""


class Way:
    """One config's loader, with a network of its own, stepped on demand."""

    def __init__(self, cfg: TrainJob, ranks: Ranks = ALONE) -> None:
        source = build_source(cfg.dataset, "train", progress=ranks.is_first)
        train, options = cfg.train, cfg.loader.options
        if "cost" not in options:
            options["cost"] = find_cost(cfg, source, ranks, None)
        self.cfg, self.ranks = cfg, ranks
        self.loader = BlockLoader(
            source,
            cfg.loader.name,
            batch_frames=train.batch_frames,
            micro_batches=train.micro_batches,
            rank=ranks.rank,
            world_size=ranks.world_size,
            seed=train.seed,
            **options,
        )
        torch.manual_seed(train.seed)
        model = build_network(cfg, CPU)
        letterbox = build_letterbox(source, cfg.dataset.augment, train.seed)
        criterion = build_criterion(cfg.loss)
        self.training = build_training(train, ranks, model, criterion, letterbox)
        self.steps, self.peak_mib = self.loader.by_step(), 0.0
        """The most that a step took of memory above what was there before its turn."""
        self.first = self.take(2)
        """The first steps, which are slower."""
        self.steps, self.peak_mib = self.loader.by_step(), 0.0

    def take(self, steps: int) -> list[Taken]:
        """Take so many steps; reading and batching are in their times."""
        trim_memory()
        taken, before = [], taken_memory(CPU) / 2**20
        reset_peak_memory(CPU)
        self.ranks.barrier()
        began, busy = time.perf_counter(), time.process_time()
        for batches in islice(self.steps, steps):
            train_step(self.training, batches, 0, self.loader.step - 1, self.loader.steps)
            now, worked = time.perf_counter(), time.process_time()
            taken.append(Taken(batches[0].step_frames, now - began, worked - busy))
            began, busy = now, worked
        self.peak_mib = max(self.peak_mib, peak_memory_mib(CPU) - before)
        return taken


def steps_by_round(steps: int, share: float, rounds: int) -> list[int]:
    """The steps of each round: `share` of all, spread evenly; InputError if one has none."""
    ends = [round(share * steps * done / rounds) for done in range(rounds + 1)]
    found = [end - begin for begin, end in pairwise(ends)]
    if min(found) < 1:
        raise InputError("a round has no step; give a larger --share or fewer --rounds")
    return found


def take_turns(ways: Sequence[Way], share: float, rounds: int) -> list[list[list[Taken]]]:
    """The steps of every round of every way, `share` of each one's epoch."""
    torch.set_num_threads(1)
    counts = [steps_by_round(way.loader.steps, share, rounds) for way in ways]
    taken: list[list[list[Taken]]] = [[] for _ in ways]
    for number in range(rounds):
        for way, mine, of in zip(ways, counts, taken, strict=True):
            of.append(way.take(mine[number]))
    return taken


def on_ranks(count: int, job: Job) -> Rows:
    """The rows of a job, which is called as ``job(ranks)``: in this process, or on two ranks.

    Raises:
        InputError: what a rank failed of.
    """
    if count == 1:
        return job(ALONE)
    if count != RANKS:
        raise InputError(f"--ranks is {count}; give 1, {RANKS} or both")
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_pair(partial(_on_rank, job=job, folder=Path(folder)), patience=36_000)
        failed = [outcome.message for outcome in outcomes if outcome.ended != "finished"]
        if failed:
            raise InputError("; ".join(failed))
        rows: Rows = json.loads(Path(folder, "rows").read_text())
    return rows


def _on_rank(rank: int, progress: Reporter, *, job: Job, folder: Path) -> bool:
    progress.plan(1)
    meet(rank, folder / "meeting", PATIENCE)
    rows = job(Ranks(rank, RANKS, CPU))
    if rank == 0:
        Path(folder, "rows").write_text(json.dumps(rows))
    dist.destroy_process_group()
    progress.step()
    return False
