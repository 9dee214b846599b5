"""A gated linear recurrence along the time of every query, scanned in parallel.

B blocks, T slots, N queries, D width.
"""

import torch
from torch import Tensor, nn

from models.temporal.chrono import gate_bias
from models.temporal.linear_scan import linear_scan


class ScanMemory(nn.Module):
    """The minimal gated recurrent unit (minGRU, arXiv 2410.01201),

        h_t = (1 - z_t) h_{t-1} + z_t x_t,

    with the gate z and the content x from the present frame alone. So all slots are computed at
    once, in 2 log2(T) rounds (`models.temporal.linear_scan`), with memory for a few
    ``(B, T, N, D)``. What it gives up is a gate that sees what is remembered; more layers make up
    for that. At a start nothing is kept of h and the learned start takes its place. The gates begin
    with memories from 1 to 94 frames. The state is ``(B, N, D)``.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.content = nn.Linear(width, width)
        self.start = nn.Parameter(torch.zeros(width))
        nn.init.normal_(self.gate.weight, std=0.1 * width**-0.5)
        with torch.no_grad():
            self.gate.bias.copy_(gate_bias(width))

    def forward(
        self, read_BTND: Tensor, start_BT: Tensor, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        # Autocast ends here: roundings of half precision would add up over the slots.
        with torch.autocast(read_BTND.device.type, enabled=False):
            read_BTND = read_BTND.to(self.start.dtype)
            gate_BTND = torch.sigmoid(self.gate(read_BTND))
            keep_BTND = 1 - gate_BTND
            start_BT11 = start_BT[..., None, None]
            found_BT1D = torch.where(start_BT11, self.start, 0)
            add_BTND = torch.addcmul(gate_BTND * self.content(read_BTND), keep_BTND, found_BT1D)
            if state is None:
                state = self.start.expand(len(read_BTND), *read_BTND.shape[2:])
            h_BTND = linear_scan(keep_BTND.masked_fill(start_BT11, 0), add_BTND, state)
            return h_BTND, h_BTND[:, -1]
