"""A gated linear recurrence along the time of every query, scanned in parallel.

B blocks, T slots (always dimension 1), N queries, D width.

Two neighbouring steps of h_t = keep_t h_{t-1} + add_t are one step, with keep = keep_2 keep_1 and
add = keep_2 add_1 + add_2. So pairs of slots are joined, and the recurrence of half the length is
solved in the same way. It gives every second h; each of the others follows from the one before it:

```
|a b c d e f g|  ->  |ab cd ef|  ->  h at b, d, f  ->  h at a, c, e, g as well
```

That is about 3 T multiply-adds in all, where walking takes T (Blelloch, Prefix sums and their
applications, 1990). With every keep in 0..1 no product grows, so the scan is as exact as walking
and needs no logarithms; a keep of 0 cuts the past off exactly.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from models.temporal.layers import gate_bias, no_autocast


class ScanMemory(nn.Module):
    """The minimal gated recurrent unit (minGRU, arXiv 2410.01201),

        h_t = (1 - z_t) h_{t-1} + z_t x_t,

    with the gate z and the content x from the present frame alone. So all slots are computed at
    once, in 2 log2(T) rounds (`LinearScan`), with memory for a few ``(B, T, N, D)``. No gate sees
    what is remembered; more layers make up for that. At a start, the learned start replaces h. The
    gates begin with memories from 1 to 94 frames. The state is ``(B, N, D)``.
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
        self, read_BTND: Tensor, start_BT: Tensor, state: Any, order: Any = None
    ) -> tuple[Tensor, Any]:
        with no_autocast(read_BTND.device):
            read_BTND = read_BTND.to(self.start.dtype)
            gate_BTND = torch.sigmoid(self.gate(read_BTND))
            keep_BTND = 1 - gate_BTND
            start_BT11 = start_BT[..., None, None]
            reset_BT1D = torch.where(start_BT11, self.start, 0)
            add_BTND = torch.addcmul(gate_BTND * self.content(read_BTND), keep_BTND, reset_BT1D)
            if state is None:
                state = self.start.expand(len(read_BTND), *read_BTND.shape[2:])
            h_BTND = LinearScan.apply(keep_BTND.masked_fill(start_BT11, 0), add_BTND, state)
            return h_BTND, h_BTND[:, -1]


def _solve(keep: Tensor, add: Tensor, state: Tensor) -> Tensor:
    slots, half = keep.shape[1], keep.shape[1] // 2
    if slots == 1:
        return torch.addcmul(add, keep, state.unsqueeze(1))
    keep_even, keep_odd = keep[:, 0::2], keep[:, 1::2]
    add_even, add_odd = add[:, 0::2], add[:, 1::2]
    h = torch.empty_like(add)
    joined = torch.addcmul(add_odd, keep_odd, add_even[:, :half])
    h[:, 1::2] = _solve(keep_odd * keep_even[:, :half], joined, state)
    h[:, 0] = torch.addcmul(add[:, 0], keep[:, 0], state)
    h[:, 2::2] = torch.addcmul(add_even[:, 1:], keep_even[:, 1:], h[:, 1 : slots - 1 : 2])
    return h


class LinearScan(torch.autograd.Function):
    """All h of the recurrence, differentiable in all three arguments.

    The backward pass is the same scan from the last slot to the first. It needs only `keep`, the
    outputs and the state, nothing of the rounds. `keep`, in 0..1, `add` and h are ``(B, T, ...)``,
    the state before the first slot ``(B, ...)``.
    """

    @staticmethod
    def forward(ctx: Any, keep: Tensor, add: Tensor, state: Tensor) -> Tensor:
        h = _solve(keep, add, state)
        ctx.save_for_backward(keep, h, state)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keep, h, state = ctx.saved_tensors
        # Backwards in time, slot t passes its gradient on through the keep of slot t + 1; what the
        # last slot's keep would be (here the first's) meets a state of zeros.
        next_keep = keep.flip(1).roll(1, 1)
        grad_add = _solve(next_keep, grad_h.flip(1), torch.zeros_like(state)).flip(1)
        grad_keep = torch.empty_like(keep)
        grad_keep[:, 0] = grad_add[:, 0] * state
        grad_keep[:, 1:] = grad_add[:, 1:] * h[:, :-1]
        return grad_keep, grad_add, grad_add[:, 0] * keep[:, 0]
