"""How the network computes the part in which no picture sees another; what it computes is fixed.

I pictures, C H W image or tokens, D width, L layers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from models.tokens import Tokens

if TYPE_CHECKING:
    from models.dds import DDS


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
