"""Encoded frames: tokens in rows of a grid.

I pictures, S tokens, D width.
"""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Tokens:
    """The encoded frames."""

    memory_ISD: Tensor
    placed_ISD: Tensor
    """`memory_ISD` with the positions added."""
    centres: Tensor
    """Centres (x, y) of the tokens as shares of the picture: ``(S, 2)``, or ``(I, S, 2)``."""
    inside_IS: Tensor | None
    """Bool, False on tokens outside the picture; None: all are inside."""
    grid: tuple[int, int]
    """Rows and columns."""


def to_key_mask(inside_IS: Tensor | None) -> Tensor | None:
    """Shape the mask of tokens for all heads and queries: bool ``(I, 1, 1, S)``."""
    return None if inside_IS is None else inside_IS[:, None, None]
