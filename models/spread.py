"""Equal sharing of rows over ranks, by all-to-alls that pass gradients.

R ranks, I rows of this rank's batch, J rows that it computes, L layers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch.distributed as dist
from torch import Tensor
from torch.distributed._functional_collectives import all_to_all_single_autograd, wait_tensor


def exchange(rows: Tensor, given_R: Iterable[int], got_R: Iterable[int]) -> Tensor:
    """Give ``given_R[r]`` rows to each rank r, in this order, and get ``got_R[r]`` from it.

    All ranks must call it; their backward passes exchange again.
    """
    given, got = [int(count) for count in given_R], [int(count) for count in got_R]
    assert dist.group.WORLD is not None
    return wait_tensor(all_to_all_single_autograd(rows.contiguous(), got, given, dist.group.WORLD))


def transfers(have_R: np.ndarray) -> np.ndarray:
    """Return how many pictures each rank gives to each, ``(R, R)``, so that all have equally many.

    The diagonal is what a rank keeps. Afterwards numbers differ by at most one, and as few pictures
    as possible change ranks.
    """
    ranks, total = len(have_R), int(have_R.sum())
    want_R = np.empty_like(have_R)
    want_R[np.argsort(-have_R, kind="stable")] = (total + np.arange(ranks)[::-1]) // ranks
    kept_R = np.minimum(have_R, want_R)
    # Laid end to end, surpluses lie over the deficits that they fill.
    gives, lacks = (np.append(0, np.cumsum(some_R - kept_R)) for some_R in (have_R, want_R))
    last = np.minimum(gives[1:, None], lacks[None, 1:])
    first = np.maximum(gives[:-1, None], lacks[None, :-1])
    return np.maximum(last - first, 0) + np.diag(kept_R)


@dataclass(frozen=True, eq=False)
class Spread:
    """Assignment of the pictures of a batch to ranks, in each rank's order."""

    given_RR: np.ndarray
    """Pictures that each rank gives to each, see `transfers`."""
    rank: int

    @property
    def moves(self) -> bool:
        return bool((self.given_RR != np.diag(np.diag(self.given_RR))).any())

    def away(self, values_I: Tensor) -> Tensor:
        """Send values of this rank's pictures away; return those of pictures that it computes."""
        if not self.moves:
            return values_I
        return exchange(values_I, self.given_RR[self.rank], self.given_RR[:, self.rank])

    def home(self, values_LJ: Tensor) -> Tensor:
        """Send ``(L, J, ...)`` of computed pictures home; return ``(L, I, ...)`` of its own."""
        if not self.moves:
            return values_LJ
        values_JL = values_LJ.movedim(1, 0)
        return exchange(values_JL, self.given_RR[:, self.rank], self.given_RR[self.rank]).movedim(
            0, 1
        )
