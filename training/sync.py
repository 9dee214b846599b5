"""Ways in which ranks that train together agree on weights: ``train.sync``.

R ranks, P parameters. A rank sends, in parameters per step, if collectives are rings:

| sync | after a step | sends |
| --- | --- | --- |
| allreduce | nothing: DDP has averaged the gradients | 2 (R - 1) / R x P |
| local | average over all ranks, every k = ``train.sync_every`` steps | 2 (R - 1) / R x P / k |
| gossip | average over a rank and its neighbours on a ring | 2 P, on two ranks P |
| none | nothing: isolated ranks, to compare with | 0 |

``local`` is local SGD (arXiv 1805.09767); it also averages after an epoch's last step. ``gossip``
exchanges with neighbours after Ergen and Kozat (arXiv 1710.08744), with first-order steps; their
particle and Kalman filters over the weights are not implemented. The mixing matrix of the ring is
symmetric and doubly stochastic, so it preserves the mean over ranks. Each round multiplies the
distance to the mean by at most the matrix's second eigenvalue: 0 on 2 and 3 ranks, 1/3 on 4, 0.80
on 8.

A rank's loss is the sum over its frames, divided by the targets of the whole step and multiplied by
the number of ranks. So the mean of the ranks' gradients is the gradient of ``allreduce``, and each
rank's is an unbiased estimate of it if blocks are dealt at random. ``local`` with k = 1 equals
``allreduce`` for SGD without clipping. Dividing by a rank's own targets would give more weight to
the targets of a rank with few.

Every rank clips its own gradient by its norm, and keeps its own AdamW moments, which are never
averaged. Ranks still sum a few counts in each step and so wait for each other; ``local`` saves only
bytes.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bload.errors import InputError
from training.ranks import Ranks

State = dict[str, Any]


def keep_parameters(parameters: Sequence[nn.Parameter], is_due: bool) -> None:
    """Leave the parameters of this rank as they are."""


def average_parameters(parameters: Sequence[nn.Parameter], is_due: bool) -> None:
    """Replace the parameters by their average over all ranks, if `is_due`."""
    if is_due:
        mean_P = flatten_parameters(parameters)
        dist.all_reduce(mean_P)
        write_parameters(mean_P / dist.get_world_size(), parameters)


def gossip(parameters: Sequence[nn.Parameter], is_due: bool) -> None:
    """Replace the parameters by their average over this rank and its neighbours on a ring.

    On a ring these are the Metropolis weights, 1 / (1 + neighbours).
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own_P = flatten_parameters(parameters)
    neighbours = sorted({(rank - 1) % ranks, (rank + 1) % ranks})  # on two ranks, the other one
    received = [torch.empty_like(own_P) for _ in neighbours]
    sends = [dist.P2POp(dist.isend, own_P, neighbour) for neighbour in neighbours]
    receives = [
        dist.P2POp(dist.irecv, received_P, neighbour)
        for neighbour, received_P in zip(neighbours, received, strict=True)
    ]
    for work in dist.batch_isend_irecv([*sends, *receives]):
        work.wait()
    write_parameters(torch.stack([own_P, *received]).mean(0), parameters)


@torch.no_grad()
def flatten_parameters(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Copy all parameters into one vector, ``(P,)``."""
    return torch.cat([parameter.reshape(-1) for parameter in parameters])


@torch.no_grad()
def write_parameters(values_P: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Write the vector of `flatten_parameters` into the parameters, with their own strides.

    The optimiser's moments have these strides too. Convolutions are channels-last, and a fused
    optimiser pairs values by their place in memory.
    """
    parts = values_P.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.view_as(parameter))


SYNCS: dict[str, Callable[[Sequence[nn.Parameter], bool], None]] = {
    "allreduce": keep_parameters,
    "local": average_parameters,
    "gossip": gossip,
    "none": keep_parameters,
}
"""Name in `SYNC_NAMES` -> what all of two or more ranks do with their parameters after a step."""


class RankStates:
    """Weights and optimisers of all ranks, each with its own, in one checkpoint."""

    def __init__(self, ranks: Ranks, save: Callable[[], State], load: Callable[[State], None]):
        self.ranks, self.save, self.load = ranks, save, load

    def state_dict(self) -> list[State]:
        """Return the states of all ranks, on rank 0's CPU; on other ranks an empty list.

        A rank alone has no state but the run's.
        """
        if self.ranks.world_size == 1:
            return []
        contents = io.BytesIO()
        torch.save(self.save(), contents)
        parts: list = [None] * dist.get_world_size() if dist.get_rank() == 0 else []
        dist.gather_object(contents.getvalue(), parts or None)
        return [
            torch.load(io.BytesIO(part), map_location="cpu", weights_only=True) for part in parts
        ]

    def load_state_dict(self, states: list[State]) -> None:
        """Restore this rank's own state; raises `InputError` on another number of ranks."""
        if not states:
            return
        if len(states) != self.ranks.world_size:
            raise InputError(
                f"the checkpoint holds {len(states)} ranks, each with weights of its own, and here "
                f"are {self.ranks.world_size}; go on with {len(states)}, or start anew with "
                "run.resume=never"
            )
        self.load(states[self.ranks.rank])


@contextmanager
def mean_weights(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Give modules the mean of the ranks' weights within the body; all ranks enter it."""
    parameters = [parameter for module in modules for parameter in trainable_parameters(module)]
    own_P = flatten_parameters(parameters)
    average_parameters(parameters, is_due=True)
    try:
        yield
    finally:
        write_parameters(own_P, parameters)


def is_average_due(step: int, steps: int, interval: int) -> bool:
    """Return True after every `interval`-th of an epoch's steps, and after the last."""
    return step % interval == 0 or step == steps


def trainable_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that a step changes."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]
