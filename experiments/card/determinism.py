"""Two runs of a few steps: equal to the bit, or by how much not.

With torch's own choice of algorithms, and with deterministic ones (``train.deterministic=true``).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice

import torch
from torch import Tensor
from torch.backends import cudnn

from experiments.card.bench import Bench
from experiments.card.one_rank import relative
from experiments.card.record import Row, Unit
from experiments.card.scale import Subject
from training.ranks import make_deterministic
from training.step import train_step


def units(bench: Bench) -> list[Unit]:
    """One for each network and choice of algorithms."""
    return [
        (
            f"{subject.model}, {'deterministic' if chosen else 'fastest'} algorithms",
            partial(run_rows, bench, subject, chosen),
        )
        for subject in bench.scale.subjects
        for chosen in (False, True)
    ]


def run_rows(bench: Bench, subject: Subject, deterministic: bool) -> list[Row]:
    """One row: whether losses and weights of two runs are equal."""
    with algorithms(deterministic):
        (losses, weights), (other_losses, other_weights) = (
            run(bench, subject, bench.scale.repeated_steps) for _ in range(2)
        )
    row: Row = {
        "model": subject.model,
        "deterministic": deterministic,
        "steps": len(losses),
        "equal": losses == other_losses and bool((weights == other_weights).all()),
        "difference": relative(weights, other_weights),
        "losses": [losses, other_losses],
    }
    if deterministic and not row["equal"]:
        row["problem"] = "two runs with deterministic algorithms differ"
    return [row]


@contextmanager
def algorithms(deterministic: bool) -> Iterator[None]:
    """Within it this process takes deterministic algorithms, or any."""
    with cudnn.flags(enabled=True, benchmark=False, deterministic=False, allow_tf32=True):
        if deterministic:
            make_deterministic()
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)


def run(bench: Bench, subject: Subject, steps: int) -> tuple[list[float], Tensor]:
    """The losses of a run, and the weights at its end as one vector in float64."""
    training = bench.training(subject, "0.5")
    loader = bench.loader(subject)
    taken = [
        train_step(training, batches, 0, loader.step - 1, loader.steps)
        for batches in islice(loader.by_step(), steps)
    ]
    losses = [step.losses["loss"] for step in taken]
    weights = torch.cat([p.detach().flatten() for p in training.model.parameters()])
    return losses, weights.double()
