"""A gated recurrent unit (arXiv 1406.1078) along the time of every query.

B blocks, T slots, N queries, D width.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bload.batch.walk import walk
from models.temporal.layers import gate_bias, no_autocast


class GRUMemory(nn.Module):
    """A memory that walks, with a few kernels for each slot of the longest segment.

    The maths and the parameters are those of `torch.nn.GRUCell`; the products with the present
    frames are computed for all slots at once. The gates begin with memories from 1 to 94 frames.
    The state is ``(B, N, D)``.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.start = nn.Parameter(torch.zeros(width))
        # The order is reset, keep, new; PyTorch's keep gate is open where an update gate is closed.
        keep = slice(width, 2 * width)
        with torch.no_grad():
            self.cell.bias_ih[keep] = -gate_bias(width)
            self.cell.bias_hh[keep] = 0

    def forward(
        self, read_BTND: Tensor, start_BT: Tensor, state: Any, order: Any = "segments"
    ) -> tuple[Tensor, Any]:
        cell = self.cell
        with no_autocast(read_BTND.device):
            inputs_BTND = F.linear(read_BTND.to(self.start.dtype), cell.weight_ih, cell.bias_ih)
            return walk(self, inputs_BTND, start_BT, state, order)

    def init_state(self, inputs: Tensor) -> Tensor:
        """Return the learned start for every query: there is no previous frame."""
        return self.start.expand(*inputs.shape[:2], -1)

    def step(self, inputs: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """Step one slot: inputs ``(B, N, 3 D)``, state ``(B, N, D)`` -> the new state, twice."""
        width = state.shape[-1]
        memory = F.linear(state, self.cell.weight_hh, self.cell.bias_hh)
        gates = torch.sigmoid(inputs[..., : 2 * width] + memory[..., : 2 * width])
        reset, keep = gates.chunk(2, dim=-1)
        new_inputs, new_memory = inputs[..., 2 * width :], memory[..., 2 * width :]
        candidate = torch.tanh(torch.addcmul(new_inputs, reset, new_memory))
        state = torch.lerp(candidate, state, keep)
        return state, state
