"""Feature sequences, a recurrent classifier of them, and an epoch of it on one of two ranks.

The least that needs what a video needs. B blocks, T slots, F features, D width, K classes.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from bload import Batch, BlockLoader, walk
from experiments.rank_pair import RANKS, START_LIMIT, Reporter

FEATURES = 16
CLASSES = 4


class FeatureSequences:
    """Random features of given lengths; every frame leans towards the class of its sequence.

    One frame tells little about the class, so it pays to remember the earlier ones. Sequences that
    are held out have the same classes and other noise.
    """

    def __init__(
        self, lengths: Sequence[int] | np.ndarray, seed: int = 0, held_out: bool = False
    ) -> None:
        self.lengths = np.asarray(lengths).tolist()
        self._offset = np.concatenate([[0], np.cumsum(lengths)])
        random = torch.Generator().manual_seed(seed)
        direction_KF = torch.randn(CLASSES, FEATURES, generator=random) / FEATURES**0.5
        if held_out:
            random.manual_seed(seed + 2**32)
        self._features_NF = torch.randn(int(self._offset[-1]), FEATURES, generator=random)
        class_N = torch.arange(len(self.lengths)) % CLASSES
        self._features_NF += direction_KF[class_N.repeat_interleave(torch.tensor(self.lengths))]

    def read(self, sequence: int, first: int, length: int) -> tuple[Tensor, list[int]]:
        """Return features ``(length, F)`` and one class per frame."""
        begin = int(self._offset[sequence]) + first
        return self._features_NF[begin : begin + length], [sequence % CLASSES] * length


class RecurrentClassifier(nn.Module):
    """A GRU that is cleared at every start, and a linear layer on its state."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.cell = nn.GRUCell(FEATURES, width)
        self.head = nn.Linear(width, CLASSES)

    def init_state(self, inputs: Tensor) -> Tensor:
        return inputs.new_zeros(len(inputs), self.cell.hidden_size)

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        output = self.cell(inputs, state)
        return output, output

    def forward(
        self, frames_BTF: Tensor, start_BT: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return logits ``(B, T, K)`` and the state after the last slot."""
        state_BTD, last = walk(self, frames_BTF, start_BT, state)
        return self.head(state_BTD), last


def train_on(model: nn.Module, optimiser: torch.optim.Optimizer, batch: Batch) -> None:
    """Take one step on the frames of a batch; for a batch of empty blocks the gradient is zero."""
    logits_BTK, _ = model(batch.frames_BT, batch.start_BT)
    wanted_V = torch.tensor(batch.targets, dtype=torch.int64)
    loss = nn.functional.cross_entropy(logits_BTK[batch.valid_BT], wanted_V, reduction="sum")
    optimiser.zero_grad()
    (loss / batch.valid_BT.numel()).backward()
    optimiser.step()


def new_classifier() -> tuple[RecurrentClassifier, torch.optim.Optimizer]:
    """Build the classifier that everyone trains, and its optimiser."""
    torch.manual_seed(0)
    model = RecurrentClassifier()
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def warm_up() -> None:
    """Take the first step of a process, which pays for what PyTorch loads and allocates."""
    for batch in BlockLoader(FeatureSequences([8, 8]), "naive", batch_frames=16):
        train_on(*new_classifier(), batch)


def clips(lengths: Sequence[int], clip: int, rank: int) -> list[tuple[int, int, int]]:
    """The steps of a rank without a plan: sequence, first frame and length of each clip."""
    return [
        (sequence, first, min(clip, length - first))
        for sequence, length in enumerate(lengths)
        for first in range(0, length, clip)
        if sequence % RANKS == rank
    ]


def uneven_epoch(
    rank: int,
    progress: Reporter,
    *,
    lengths: Sequence[int],
    clip: int,
    meeting: Path,
    patience: float,
    join: bool = False,
    leave: bool = False,
) -> bool:
    """Train one rank on the sequences that a distributed sampler deals it, one after another.

    A step is a clip of at most `clip` frames; the state goes on from clip to clip of a sequence.
    Both ranks have equally many sequences, but not equally many clips.

    Args:
        meeting: file through which the ranks find each other.
        patience: seconds after which a collective operation gives up.
        join: shadow the steps of the other rank when out of sequences (torch's Join).
        leave: exit when done; else stay, as a rank does that goes on to evaluate.
    """
    model, optimiser = _start(rank, meeting, patience)
    source = FeatureSequences(lengths)
    steps = clips(lengths, clip, rank)
    progress.plan(len(steps))
    state = None
    with Join([model]) if join else nullcontext():
        for sequence, first, length in steps:
            frames_TF, classes = source.read(sequence, first, length)
            start_BT = torch.zeros(1, length, dtype=torch.bool)
            start_BT[0, 0] = first == 0
            state = None if first == 0 or state is None else state.detach()
            logits_BTK, state = model(frames_TF[None], start_BT, state)
            wanted_T = torch.tensor(classes)
            loss = nn.functional.cross_entropy(logits_BTK[0], wanted_T, reduction="sum")
            optimiser.zero_grad()
            (loss / clip).backward()
            optimiser.step()
            progress.step()
    return leave


def block_epoch(
    rank: int,
    progress: Reporter,
    *,
    lengths: Sequence[int],
    loader: str,
    batch_frames: int,
    meeting: Path,
    patience: float,
) -> bool:
    """Train one rank on an epoch of one of the loaders; arguments as for `uneven_epoch`."""
    model, optimiser = _start(rank, meeting, patience)
    source = FeatureSequences(lengths)
    batches = BlockLoader(source, loader, batch_frames=batch_frames, rank=rank, world_size=RANKS)
    progress.plan(len(batches))
    for batch in batches:
        train_on(model, optimiser, batch)
        progress.step()
    return False


def _start(
    rank: int, meeting: Path, patience: float
) -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """Meet the other rank; the model is the same on both."""
    warm_up()
    model, optimiser = new_classifier()
    meet(rank, meeting, patience)
    return DistributedDataParallel(model), optimiser


def meet(rank: int, meeting: Path, patience: float) -> None:
    """Join a new process group with the other rank.

    The time that one rank needs to start does not use up the other's patience.

    Args:
        meeting: file through which the ranks find each other.
        patience: seconds after which a collective operation gives up.
    """
    store = dist.FileStore(str(meeting), RANKS)
    store.set(f"ready {rank}", "")
    store.wait([f"ready {other}" for other in range(RANKS)], timedelta(seconds=START_LIMIT))
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=patience)
    )
