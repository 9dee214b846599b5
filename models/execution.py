"""How the network computes the part in which no picture sees another; what it computes is fixed.

I pictures, C H W image or tokens, S tokens, D width, L layers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from bload import Spread

if TYPE_CHECKING:
    from models.dds import DDS


@dataclass(frozen=True, slots=True)
class Tokens:
    """The encoded frames, as tokens in rows of a grid."""

    memory_ISD: Tensor
    placed_ISD: Tensor
    """`memory_ISD` with the positions added."""
    centres: Tensor
    """Centres (x, y) of the tokens as shares of the picture: ``(S, 2)``, or ``(I, S, 2)``."""
    inside_IS: Tensor | None
    """Bool, False on tokens outside the picture; None: all are inside."""
    grid: tuple[int, int]
    """Rows and columns."""
    spread: Spread | None = None
    """How the pictures are shared with other ranks, see `models.exchange`."""


def to_key_mask(inside_IS: Tensor | None) -> Tensor | None:
    """Shape the mask of tokens for all heads and queries: bool ``(I, 1, 1, S)``."""
    return None if inside_IS is None else inside_IS[:, None, None]


@dataclass(frozen=True)
class Execution:
    """Computation of all pictures on this device, at once.

    Other ways are subclasses. They get the network when they are called and keep no reference to
    it, since copies of a network share its execution.
    """

    skip_padding: bool = False
    """Leave padding out of the work on single frames; the outputs are the same."""

    def encode(self, network: "DDS", frames_ICHW: Tensor, extent_I2: Tensor | None) -> Tensor:
        """Return ``network.encode(frames_ICHW, extent_I2)``: ``(I, H, W, D)``."""
        return network.encode(frames_ICHW, extent_I2)

    def compute_tokens(
        self, network: "DDS", frames_ICHW: Tensor, extent_I2: Tensor | None
    ) -> Tokens:
        """Return the tokens of the frames."""
        return network.build_tokens(self.encode(network, frames_ICHW, extent_I2), extent_I2)

    def apply(self, function: Callable[[Tokens], Tensor], tokens: Tokens) -> Tensor:
        """Return ``function(tokens)``, ``(L, I, ...)``, which sees each picture by itself."""
        return function(tokens)
