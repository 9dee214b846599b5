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
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from training.config import SYNC_NAMES


def keep(parameters: Sequence[nn.Parameter], due: bool) -> None:
    """Leave the parameters of this rank as they are."""


def local(parameters: Sequence[nn.Parameter], due: bool) -> None:
    """Replace the parameters by their average over all ranks, if `due`."""
    if due:
        mean_P = flat(parameters)
        dist.all_reduce(mean_P)
        put_back(mean_P / dist.get_world_size(), parameters)


def gossip(parameters: Sequence[nn.Parameter], due: bool) -> None:
    """Replace the parameters by their average over this rank and its neighbours on a ring.

    On a ring these are the Metropolis weights, 1 / (1 + neighbours).
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine_P = flat(parameters)
    neighbours = sorted({(rank - 1) % ranks, (rank + 1) % ranks})  # on two ranks, the other one
    theirs = [torch.empty_like(mine_P) for _ in neighbours]
    sends = [dist.P2POp(dist.isend, mine_P, other) for other in neighbours]
    receives = [
        dist.P2POp(dist.irecv, their_P, other)
        for other, their_P in zip(neighbours, theirs, strict=True)
    ]
    for work in dist.batch_isend_irecv([*sends, *receives]):
        work.wait()
    put_back(torch.stack([mine_P, *theirs]).mean(0), parameters)


@torch.no_grad()
def flat(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Copy all parameters into one vector, ``(P,)``."""
    return torch.cat([parameter.reshape(-1) for parameter in parameters])


@torch.no_grad()
def put_back(values_P: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Write the vector of `flat` into the parameters, with their strides, which moments share.

    Convolutions are channels-last, and a fused optimiser pairs values by their place in memory.
    """
    parts = values_P.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.view_as(parameter))


SYNCS: dict[str, Callable[[Sequence[nn.Parameter], bool], None]] = dict(
    zip(SYNC_NAMES, (keep, local, gossip, keep), strict=True)
)
"""Name -> what all of two or more ranks do with their parameters after each step."""


def is_due(step: int, steps: int, every: int) -> bool:
    """True after every `every`-th of an epoch's steps, numbered from 0, and after the last."""
    return (step + 1) % every == 0 or step + 1 == steps


def trained(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that a step changes."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


Module = TypeVar("Module", bound=nn.Module)


def mean_of_ranks(module: Module) -> Module:
    """Copy a module with its parameters averaged over all ranks; all ranks call this."""
    mean = deepcopy(module)
    local(trained(mean), due=True)
    return mean


def gather_states(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the states of all ranks, on rank 0's CPU; on other ranks an empty list."""
    contents = io.BytesIO()
    torch.save(state, contents)
    parts: list = [None] * dist.get_world_size() if dist.get_rank() == 0 else []
    dist.gather_object(contents.getvalue(), parts or None)
    return [torch.load(io.BytesIO(part), map_location="cpu", weights_only=True) for part in parts]
