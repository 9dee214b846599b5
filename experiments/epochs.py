"""An epoch on one of two ranks: of uneven clips, as without a plan, or of a loader's blocks."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from bload.loader import BlockLoader
from experiments.rank_pair import RANKS, START_LIMIT, Progress
from experiments.sequences import FeatureSequences, RecurrentClassifier, train_step


def clips(lengths: Sequence[int], clip: int, rank: int) -> list[tuple[int, int, int]]:
    """The steps of a rank without a plan: sequence, first frame and length of each clip."""
    return [
        (sequence, first, min(clip, length - first))
        for sequence, length in enumerate(lengths)
        for first in range(0, length, clip)
        if sequence % RANKS == rank
    ]


@dataclass(frozen=True)
class UnevenEpoch:
    """Every rank takes the videos that a distributed sampler deals it, one after another.

    A step is a clip of at most `clip` frames; the state goes on from clip to clip of a video. Both
    ranks have equally many videos, but not equally many clips.
    """

    lengths: tuple[int, ...]
    clip: int
    meeting: Path
    patience: float
    """Seconds after which a collective operation gives up."""
    join: bool = False
    """Shadow the steps of the other rank when out of videos (torch's Join)."""
    leave: bool = False
    """Exit when done; else stay, as a rank does that goes on to evaluate."""

    def __call__(self, rank: int, progress: Progress) -> bool:
        model, optimiser = _start(rank, self.meeting, self.patience)
        source = FeatureSequences(np.array(self.lengths))
        steps = clips(self.lengths, self.clip, rank)
        progress.plan(len(steps))
        state = None
        with Join([model]) if self.join else nullcontext():
            for sequence, first, length in steps:
                frames_TF, classes = source.read(sequence, first, length)
                start_BT = torch.zeros(1, length, dtype=torch.bool)
                start_BT[0, 0] = first == 0
                state = None if first == 0 or state is None else state.detach()
                logits_BTK, state = model(frames_TF[None], start_BT, state)
                wanted_T = torch.tensor(classes)
                loss = torch.nn.functional.cross_entropy(logits_BTK[0], wanted_T, reduction="sum")
                optimiser.zero_grad()
                (loss / self.clip).backward()
                optimiser.step()
                progress.step()
        return self.leave


@dataclass(frozen=True)
class BlockEpoch:
    """An epoch of one of the five loaders."""

    lengths: tuple[int, ...]
    loader: str
    batch_frames: int
    meeting: Path
    patience: float

    def __call__(self, rank: int, progress: Progress) -> bool:
        model, optimiser = _start(rank, self.meeting, self.patience)
        loader = BlockLoader(
            FeatureSequences(np.array(self.lengths)),
            self.loader,
            batch_frames=self.batch_frames,
            rank=rank,
            world_size=RANKS,
        )
        progress.plan(len(loader))
        for batch in loader:
            train_step(model, optimiser, batch)
            progress.step()
        return False


def _start(
    rank: int, meeting: Path, patience: float
) -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """Meet the other rank in a new process group; one model on both."""
    if dist.is_initialized():
        dist.destroy_process_group()
    torch.manual_seed(0)
    model = RecurrentClassifier()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    # What a rank had to import must not use up the other's patience.
    store = dist.FileStore(str(meeting), RANKS)
    store.set(f"ready {rank}", "")
    store.wait([f"ready {other}" for other in range(RANKS)], timedelta(seconds=START_LIMIT))
    dist.init_process_group(
        "gloo",
        store=store,
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(seconds=patience),
    )
    return DistributedDataParallel(model), optimiser
