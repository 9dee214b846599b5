"""Equal sharing of rows over ranks, by all-to-alls that pass gradients.

R ranks, I rows of this rank's batch, J rows that it computes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor


class _Exchange(torch.autograd.Function):
    """Give ``given[r]`` rows to each rank r, in this order, and get ``got[r]`` from it."""

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
        return _Exchange.apply(gradients[0], *ctx.back), None, None, None


def transfers(have_R: np.ndarray) -> np.ndarray:
    """Return how many rows each rank gives to each, ``(R, R)``, so that all have equally many.

    The diagonal is what a rank keeps. Then numbers differ by at most one, and the fewest rows move.
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


@dataclass(frozen=True, eq=False)
class Spread:
    """Assignment of the rows of all ranks' batches to ranks; see `spread_rows`."""

    given_RR: np.ndarray
    """Rows that each rank gives to each, see `transfers`."""
    process_group: dist.ProcessGroup | None = None

    def away(self, values_I: Tensor) -> Tensor:
        """Send values of this rank's rows away; return those of rows that it computes."""
        return self._exchange(values_I, self.given_RR)

    def home(self, values_J: Tensor, dim: int = 0) -> Tensor:
        """Send values of computed rows home, which lie along `dim`; return those of its own."""
        return self._exchange(values_J.movedim(dim, 0), self.given_RR.T).movedim(0, dim)

    def _exchange(self, rows: Tensor, given_RR: np.ndarray) -> Tensor:
        rank = dist.get_rank(self.process_group)
        given, got = given_RR[rank].tolist(), given_RR[:, rank].tolist()
        received: Tensor = _Exchange.apply(rows, given, got, self.process_group)
        return received


def spread_rows(rows: int, process_group: dist.ProcessGroup | None = None) -> Spread:
    """Agree with all ranks which rank computes which rows, so that all have equally many.

        spread = spread_rows(len(rows_I))
        features_I = spread.home(encoder(spread.away(rows_I)))

    All ranks must call it, and `Spread.away` and `Spread.home` equally often, also those without
    rows; gradients go back the same ways.

    Args:
        rows: number of this rank's rows.
        process_group: group of the ranks; None takes the default group.
    """
    all_R: list[Any] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(all_R, rows, process_group)
    return Spread(transfers(np.array(all_R)), process_group)
