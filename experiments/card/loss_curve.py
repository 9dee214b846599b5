"""The losses of `dds_tiny` on the card beside the CPU's: same weights, same batches, float32.

Both are right if they stay together. Rounding grows from step to step: where initial weights differ
by a millionth, single losses of 200 steps come 0.8 % apart and running means 0.2 % (on a CPU).
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path

import numpy as np
import torch
from torch.backends import cudnn

from bload import Batch, BlockLoader
from datasets.action_genome import ActionGenome
from datasets.synthetic.writer import ensure
from experiments.card.bench import Bench
from experiments.card.record import Row, Unit
from experiments.card.scale import LOADERS, Subject
from training.step import train_step

CPU = torch.device("cpu")
FIRST, AT_FIRST = 5, 1e-3
"""Each of so many first losses may differ by so much, relatively."""
WINDOW, LATER = 20, 0.02
"""So may the means of so many losses in a row, later."""


def units(bench: Bench) -> list[Unit]:
    """One: the smallest network."""
    subject = bench.scale.subjects[-1]
    return [(f"{subject.model}, {bench.scale.curve_steps} steps", partial(rows, bench, subject))]


def rows(bench: Bench, subject: Subject) -> list[Row]:
    """One row: both curves, and how far they are apart."""
    with tempfile.TemporaryDirectory() as folder, float32():
        size, videos = subject.frame_size, bench.scale.curve_videos
        root = Path(folder, "root")
        ensure(root, progress=False, train_videos=videos, test_videos=1, image_size=size[0])
        source = ActionGenome(root, "train", size)
        steps = list(islice(epochs(source), bench.scale.curve_steps))
        here, there = (curve(bench, subject, source, steps, on) for on in (bench.device, CPU))
    row: Row = {"model": subject.model, "losses": here, "cpu_losses": there}
    row["at_first"] = apart(here[:FIRST], there[:FIRST])
    row["later"] = apart(means(here), means(there))
    if not (row["at_first"] <= AT_FIRST and row["later"] <= LATER):
        row["problem"] = (
            f"the losses differ from the CPU's by {row['at_first']:.1e} in the first {FIRST} steps "
            f"({AT_FIRST:g} may be) and by {row['later']:.1e} later ({LATER:g} may be)"
        )
    return [row]


@contextmanager
def float32() -> Iterator[None]:
    """Within it convolutions and products round like the CPU's, without TF32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with cudnn.flags(enabled=True, benchmark=False, deterministic=False, allow_tf32=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def epochs(source: ActionGenome) -> Iterator[list[Batch]]:
    """The batches of each step, one block, epoch after epoch."""
    loader = BlockLoader(source, LOADERS[-1], rank=0, world_size=1)
    for epoch in count():
        loader.set_epoch(epoch)
        yield from loader.by_step()


def curve(
    bench: Bench,
    subject: Subject,
    source: ActionGenome,
    steps: list[list[Batch]],
    device: torch.device,
) -> list[float]:
    """The loss of every step."""
    training = bench.training(subject, amp="off", source=source, device=device)
    taken = [
        train_step(training, batches, 0, step, len(steps)) for step, batches in enumerate(steps)
    ]
    return [step.losses["loss"] for step in taken]


def means(losses: list[float]) -> list[float]:
    """The mean of every `WINDOW` losses in a row; of all if they are fewer."""
    window = min(WINDOW, len(losses))
    smooth: list[float] = np.convolve(losses, np.full(window, 1 / window), "valid").tolist()
    return smooth


def apart(one: list[float], other: list[float]) -> float:
    """The largest relative difference between two curves."""
    return float(max(abs(a - b) / abs(b) for a, b in zip(one, other, strict=True)))
