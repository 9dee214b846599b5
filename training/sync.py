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
symmetric and doubly stochastic, so it preserves the mean over ranks, and each round multiplies the
distance to it by at most the matrix's second eigenvalue: 0 on 2 and 3 ranks, 1/3 on 4, 0.80 on 8.

A rank's loss is the sum over its frames, divided by the targets of the whole step and multiplied by
the number of ranks. So the mean of the ranks' gradients is the gradient of ``allreduce``, and
``local`` with k = 1 equals it for SGD without clipping. Every rank clips its own gradient, and
keeps its own AdamW moments. Ranks still sum a few counts in each step and so wait for each other.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn


def average(own_P: Tensor) -> Tensor:
    """Return the average over all ranks."""
    sum_P = own_P.clone()
    dist.all_reduce(sum_P)
    return sum_P / dist.get_world_size()


def gossip(own_P: Tensor) -> Tensor:
    """Return the average over this rank and its neighbours on a ring, by Metropolis weights."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    neighbours = sorted({(rank - 1) % ranks, (rank + 1) % ranks})  # on two ranks, the other one
    received = {neighbour: torch.empty_like(own_P) for neighbour in neighbours}
    sends = [dist.P2POp(dist.isend, own_P, neighbour) for neighbour in neighbours]
    receives = [dist.P2POp(dist.irecv, got_P, neighbour) for neighbour, got_P in received.items()]
    for work in dist.batch_isend_irecv([*sends, *receives]):
        work.wait()
    return torch.stack([own_P, *received.values()]).mean(0)


SYNCS: dict[str, Callable[[Tensor], Tensor] | None] = {
    "allreduce": None,
    "local": average,
    "gossip": gossip,
    "none": None,
}
"""Value of ``train.sync`` -> what all of two or more ranks make of their parameters, ``(P,)``."""


def synchronise(sync: str, module: nn.Module, step: int, steps: int, every: int) -> None:
    """Let all ranks agree on weights after a step of an epoch, counted from 1, as `sync` says."""
    mix = SYNCS[sync]
    if mix and (sync != "local" or step % every == 0 or step == steps):
        mix_parameters([module], mix)


@contextmanager
def mean_weights(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Give modules the mean of the ranks' weights within the body; all ranks enter it."""
    own_P = mix_parameters(modules, average)
    try:
        yield
    finally:
        mix_parameters(modules, lambda _: own_P)


@torch.no_grad()
def mix_parameters(modules: Sequence[nn.Module], mix: Callable[[Tensor], Tensor]) -> Tensor:
    """Replace what a step changes of modules, as a vector, by its mix; return what it was.

    Parameters keep their own strides. The optimiser's moments have these strides too. Convolutions
    are channels-last, and a fused optimiser pairs values by their place in memory.
    """
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    own_P = torch.cat([parameter.reshape(-1) for parameter in parameters])
    parts = mix(own_P).split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.view_as(parameter))
    return own_P
