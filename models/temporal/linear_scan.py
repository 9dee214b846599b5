"""The linear recurrence h_t = keep_t h_{t-1} + add_t, computed in parallel over time.

T slots, always dimension 1 of ``(B, T, ...)``.

Two neighbouring steps are one step, with keep = keep_2 keep_1 and add = keep_2 add_1 + add_2. So
pairs of slots are joined, the recurrence of half the length is solved the same way, which gives
every second h, and each of the others follows from the one before it:

```
|a b c d e f g|  ->  |ab cd ef|  ->  h at b, d, f  ->  h at a, c, e, g as well
```

That is 2 log2(T) rounds of element-wise work on T, T / 2, T / 4, ... slots: about 3 T multiply-adds
in all where walking takes T (Blelloch, Prefix sums and their applications, 1990). With every keep
in 0..1 no product grows, so that it is as exact as walking and needs no logarithms; a keep of 0
cuts the past off exactly.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable


def linear_scan(keep: Tensor, add: Tensor, state: Tensor) -> Tensor:
    """All h of the recurrence, differentiable in all three arguments.

    Its backward pass is the same scan from the last slot to the first, and it keeps `keep`, the
    outputs and the state, nothing of the rounds.

    Args:
        keep: in 0..1, ``(B, T, ...)``.
        add: ``(B, T, ...)``.
        state: h before the first slot, ``(B, ...)``.

    Returns:
        h ``(B, T, ...)``.
    """
    return _LinearScan.apply(keep, add, state)


def _solve(keep: Tensor, add: Tensor, state: Tensor) -> Tensor:
    slots, half = keep.shape[1], keep.shape[1] // 2
    if slots == 1:
        return torch.addcmul(add, keep, state.unsqueeze(1))
    keep_even, keep_odd = keep[:, 0::2], keep[:, 1::2]
    add_even, add_odd = add[:, 0::2], add[:, 1::2]
    h = torch.empty_like(add)
    h[:, 1::2] = _solve(
        keep_odd * keep_even[:, :half],
        torch.addcmul(add_odd, keep_odd, add_even[:, :half]),
        state,
    )
    h[:, 0] = torch.addcmul(add[:, 0], keep[:, 0], state)
    h[:, 2::2] = torch.addcmul(add_even[:, 1:], keep_even[:, 1:], h[:, 1 : slots - 1 : 2])
    return h


class _LinearScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, keep: Tensor, add: Tensor, state: Tensor) -> Tensor:
        h = _solve(keep, add, state)
        ctx.save_for_backward(keep, h, state)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keep, h, state = ctx.saved_tensors
        # Backwards in time, slot t passes its gradient on through the keep of slot t + 1; what the
        # last slot's keep would be (here the first's) meets a state of zeros.
        passed = keep.flip(1).roll(1, 1)
        grad_add = _solve(passed, grad_h.flip(1), torch.zeros_like(state)).flip(1)
        grad_keep = torch.empty_like(keep)
        grad_keep[:, 0] = grad_add[:, 0] * state
        grad_keep[:, 1:] = grad_add[:, 1:] * h[:, :-1]
        return grad_keep, grad_add, grad_add[:, 0] * keep[:, 0]
