"""Equal sharing of rows over ranks, by all-to-alls that pass gradients.

R ranks, I rows of this rank's batch, J rows that it computes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, given: list[int], got: list[int], group: dist.ProcessGroup | None
    ) -> Tensor:
        ctx.back = got, given, group
        received = rows.new_empty(sum(got), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), got, given, group)
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return exchange(gradients[0], *ctx.back), None, None, None


def exchange(
    rows: Tensor,
    given_R: Iterable[int],
    got_R: Iterable[int],
    process_group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Give ``given_R[r]`` rows to each rank r, in this order, and get ``got_R[r]`` from it.

    All ranks must call it; their backward passes exchange again.
    """
    given, got = [int(count) for count in given_R], [int(count) for count in got_R]
    received: Tensor = _Exchange.apply(rows, given, got, process_group)
    return received


def transfers(have_R: np.ndarray) -> np.ndarray:
    """Return how many rows each rank gives to each, ``(R, R)``, so that all have equally many.

    The diagonal is what a rank keeps. Afterwards numbers differ by at most one, and as few rows as
    possible change ranks.
    """
    ranks, total = len(have_R), int(have_R.sum())
    want_R = np.empty_like(have_R)
    want_R[np.argsort(-have_R, kind="stable")] = (total + np.arange(ranks)[::-1]) // ranks
    kept_R = np.minimum(have_R, want_R)
    # Laid end to end, surpluses lie over the deficits that they fill.
    gives, lacks = (np.append(0, np.cumsum(rows_R - kept_R)) for rows_R in (have_R, want_R))
    last = np.minimum(gives[1:, None], lacks[None, 1:])
    first = np.maximum(gives[:-1, None], lacks[None, :-1])
    given_RR: np.ndarray = np.maximum(last - first, 0) + np.diag(kept_R)
    return given_RR


def _assign_rows(cost_RI: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the rank that computes each row of each rank.

    Each keeps its first rows, up to the mean cost of a rank. The others go, in order of falling
    cost, to the rank with the least.
    """
    mean = sum(cost_I.sum() for cost_I in cost_RI) / len(cost_RI)
    kept_RI = [cost_I.cumsum() - cost_I / 2 <= mean for cost_I in cost_RI]
    rank_RI = [np.full(len(cost_I), rank) for rank, cost_I in enumerate(cost_RI)]
    load_R = [cost_I[kept_I].sum() for cost_I, kept_I in zip(cost_RI, kept_RI, strict=True)]
    moved = [(r, i) for r, kept_I in enumerate(kept_RI) for i in np.flatnonzero(~kept_I)]
    for r, i in sorted(moved, key=lambda row: -cost_RI[row[0]][row[1]]):
        rank_RI[r][i] = np.argmin(load_R)
        load_R[rank_RI[r][i]] += cost_RI[r][i]
    return rank_RI


@dataclass(frozen=True, eq=False)
class Spread:
    """Assignment of the rows of all ranks' batches to ranks; see `spread_rows`."""

    given_RR: np.ndarray
    """Rows that each rank gives to each, see `transfers`."""
    rank: int
    process_group: dist.ProcessGroup | None = None
    order_I: Tensor | None = None
    """This rank's rows in the order of the ranks that compute them; None if they are in order."""

    @property
    def moves(self) -> bool:
        """True if any row changes ranks."""
        return bool((self.given_RR != np.diag(np.diag(self.given_RR))).any())

    def away(self, values_I: Tensor) -> Tensor:
        """Send values of this rank's rows away; return those of rows that it computes."""
        if not self.moves:
            return values_I
        if self.order_I is not None:
            values_I = values_I[self.order_I.to(values_I.device)]
        given_R, got_R = self.given_RR[self.rank], self.given_RR[:, self.rank]
        return exchange(values_I, given_R, got_R, self.process_group)

    def home(self, values_J: Tensor, dim: int = 0) -> Tensor:
        """Send values of computed rows home, which lie along `dim`; return those of its own."""
        if not self.moves:
            return values_J
        given_R, got_R = self.given_RR[:, self.rank], self.given_RR[self.rank]
        values_I = exchange(values_J.movedim(dim, 0), given_R, got_R, self.process_group)
        if self.order_I is not None:
            values_I = values_I[self.order_I.argsort().to(values_I.device)]
        return values_I.movedim(0, dim)


def spread_rows(
    costs: int | Sequence[float], process_group: dist.ProcessGroup | None = None
) -> Spread:
    """Agree with all ranks which rank computes which rows, so that all have equal work.

        spread = spread_rows(len(rows_I))
        features_I = spread.home(encoder(spread.away(rows_I)))

    All ranks must call it, and `Spread.away` and `Spread.home` equally often, also those without
    rows; gradients go back the same ways.

    Args:
        costs: number of this rank's rows, or the cost of each.
        process_group: group of the ranks; None takes the default group.
    """
    costs = costs if isinstance(costs, int) else [*costs]
    all_R: list[Any] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(all_R, costs, process_group)
    rank = dist.get_rank(process_group)
    if isinstance(costs, int):
        return Spread(transfers(np.array(all_R)), rank, process_group)
    rank_RI = _assign_rows([np.array(cost_I, dtype=float) for cost_I in all_R])
    given_RR = np.stack([np.bincount(rank_I, minlength=len(all_R)) for rank_I in rank_RI])
    order_I = torch.from_numpy(rank_RI[rank].argsort(kind="stable"))
    return Spread(given_RR, rank, process_group, order_I)
