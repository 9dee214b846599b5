"""State over blocks: a block gives what its sequences give alone, forward and backward."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from bload import BlockSampler, InputError, WalkOrder, from_dataset, walk
from tests.bload.conftest import batch_of


class Gru(nn.Module):
    """A gated unit in float64, with a learned first state that depends on the first frame."""

    def __init__(self, width=4):
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.GRUCell(3, width, dtype=torch.float64)
        self.first_D = nn.Parameter(torch.randn(width, dtype=torch.float64))

    def init_state(self, inputs):
        return self.first_D * inputs.sum(1, keepdim=True)

    def step(self, inputs, state):
        state = self.cell(inputs, state)
        return state * 2, state


class Nested(nn.Module):
    """Two units whose states differ in shape, held in a dict of a tuple and a list."""

    def __init__(self):
        super().__init__()
        self.fast, self.slow = Gru(4), Gru(6)

    def init_state(self, inputs):
        square = inputs.new_ones(len(inputs), 2, 2)
        units = self.fast.init_state(inputs), [self.slow.init_state(inputs), square]
        return {"units": units, "age": inputs.new_zeros(len(inputs), dtype=torch.int64)}

    def step(self, inputs, state):
        fast, (slow, square) = state["units"]
        out_fast, fast = self.fast.step(inputs, fast)
        out_slow, slow = self.slow.step(inputs + square.sum((1, 2))[:, None], slow)
        age = state["age"] + 1
        outputs = torch.cat([out_fast, out_slow, age[:, None].double()], dim=1)
        return outputs, {"units": (fast, [slow, square * 0.5]), "age": age}


LENGTHS = (5, 1, 3, 7, 2, 4, 4, 1)


def inputs_and_weights():
    """Random inputs of each sequence; the target of a frame is its weight in the loss."""
    torch.manual_seed(1)
    return [(torch.randn(n, 3).double(), torch.randn(n, 1).double()) for n in LENGTHS]


BOTH = pytest.mark.parametrize("order", ["segments", "slots"])


def one_batch():
    """All the sequences in one batch of packed blocks, and a filler at the end."""
    source = from_dataset(inputs_and_weights(), LENGTHS)
    (blocks,) = BlockSampler(LENGTHS, batch_slots=40, t_max=10, seed=39)
    batch = batch_of(source, 4, blocks.step, blocks)
    assert batch.start_BT.sum(1).tolist() == [4, 3, 1, 0]
    return batch


def alone(part):
    """Outputs of each sequence on its own, the gradients of the parameters and of the inputs."""
    inputs, weights = zip(*inputs_and_weights(), strict=True)
    inputs = [values.clone().requires_grad_() for values in inputs]
    outputs, loss = [], 0
    for x, weight in zip(inputs, weights, strict=True):
        state, steps = part.init_state(x[:1]), []
        for t in range(len(x)):
            output, state = part.step(x[t : t + 1], state)
            steps.append(output[0])
        outputs.append(torch.stack(steps))
        loss = loss + (outputs[-1] * weight).sum()
    gradients = torch.autograd.grad(loss, [*part.parameters(), *inputs])
    number = len(list(part.parameters()))
    return outputs, gradients[:number], gradients[number:]


@BOTH
def test_a_block_equals_its_sequences_alone(order):
    part, batch = Nested(), one_batch()
    inputs_BT = batch.inputs_BT.clone().requires_grad_()
    outputs_BT, _ = walk(part, inputs_BT, batch.start_BT, order=order)
    loss = (outputs_BT * batch.targets_BT).sum()
    *gradients, gradient_BT = torch.autograd.grad(loss, [*part.parameters(), inputs_BT])
    outputs, expected_gradients, expected_input_gradients = alone(part)
    close = {"rtol": 1e-11, "atol": 1e-11}
    for s in range(len(LENGTHS)):
        here_BT = batch.sequence_BT == s
        torch.testing.assert_close(outputs_BT[here_BT], outputs[s], **close)
        torch.testing.assert_close(gradient_BT[here_BT], expected_input_gradients[s], **close)
    torch.testing.assert_close(tuple(gradients), expected_gradients, **close)
    assert not gradient_BT[~batch.valid_BT].any()


@BOTH
def test_continuing_inside_a_segment_equals_one_shot(order):
    part, batch = Nested(), one_batch()
    close, given = {"rtol": 1e-12, "atol": 1e-12}, [*part.parameters()]
    whole_BT, last = walk(part, batch.inputs_BT, batch.start_BT, order="slots")
    gradients = torch.autograd.grad(whole_BT.sin().sum(), given, retain_graph=True)
    for cut in range(1, 10):
        first_BT, state = walk(part, batch.inputs_BT[:, :cut], batch.start_BT[:, :cut], order=order)
        rest = batch.inputs_BT[:, cut:], batch.start_BT[:, cut:]
        second_BT, end = walk(part, *rest, state, order=order)
        both_BT = torch.cat([first_BT, second_BT], dim=1)
        torch.testing.assert_close(both_BT, whole_BT, **close)
        found = torch.autograd.grad(both_BT.sin().sum(), given)
        torch.testing.assert_close(found, gradients, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(tree_leaves(end), tree_leaves(last), **close)
        anew_BT, _ = walk(part, *rest, order=order)
        assert cut > 6 or not torch.allclose(anew_BT, whole_BT[:, cut:]), cut


def test_segments_take_as_many_steps_as_the_longest():
    class Count(Gru):
        rows = ()

        def step(self, inputs, state):
            self.rows += (len(inputs),)
            return super().step(inputs, state)

    batch = one_batch()
    for order, rows in (("slots", (4,) * 10), ("segments", WalkOrder.of(batch.start_BT).rows_T)):
        part = Count()
        walk(part, batch.inputs_BT, batch.start_BT, order=order)
        assert part.rows == rows
    start_BT = torch.tensor([[True, False, False, True, False], [False, True, True, False, False]])
    order = WalkOrder.of(start_BT)
    assert order.rows_T == (5, 3, 2)
    assert order.slot_V.tolist() == [0, 7, 3, 5, 6, 1, 8, 4, 2, 9]
    assert order.starts_S.tolist() == [True, True, True, False, True]
    assert order.last_B.tolist() == [2, 1]
    values_BT = torch.arange(10).view(2, 5)
    assert torch.equal(order.unpacked(order.packed(values_BT)), values_BT)


@BOTH
def test_a_state_gone_bad_does_not_survive_a_start(order):
    part, state = Gru(), torch.full((1, 4), float("nan"), dtype=torch.float64)
    start_BT = torch.tensor([[True, False]])
    outputs_BT, _ = walk(part, torch.zeros(1, 2, 3).double(), start_BT, state, order=order)
    assert outputs_BT.isfinite().all()
    with pytest.raises(InputError, match=r"\(1, 3\) slots, starts of \(1, 2\)"):
        walk(part, torch.zeros(1, 3, 3).double(), start_BT, order=order)
    part.step = lambda inputs, state: (state, state[:0])
    with pytest.raises(InputError, match=r"step of Gru: shape \(0, 4\)"):
        walk(part, torch.zeros(1, 2, 3).double(), start_BT, order=order)
    part.init_state = lambda inputs: inputs.new_zeros(4)
    with pytest.raises(InputError, match=r"init_state of Gru: shape \(4,\), not \(1, "):
        walk(part, torch.zeros(1, 2, 3).double(), start_BT, order=order)
    with pytest.raises(InputError, match=r"init_state and step, and GRU.* lacks"):
        walk(nn.GRU(3, 3), torch.zeros(1, 2, 3), start_BT)
