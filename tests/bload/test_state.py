"""State over blocks: a block gives what its sequences give alone, forward and backward."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from bload import BlockLoader, walk


class Gru(nn.Module):
    """A gated unit with a learned first state, in float64."""

    def __init__(self, width=4):
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.GRUCell(3, width, dtype=torch.float64)
        self.first_D = nn.Parameter(torch.randn(width, dtype=torch.float64))

    def init_state(self, inputs):
        return self.first_D.expand(len(inputs), -1)

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


class Inputs:
    """Random inputs; the target of a frame is its weight in the loss."""

    lengths = (5, 1, 3, 7, 2, 4, 4, 1)

    def __init__(self):
        torch.manual_seed(1)
        self.values = [torch.randn(n, 3, dtype=torch.float64) for n in self.lengths]
        self.weights = [torch.randn(n, 1, dtype=torch.float64) for n in self.lengths]

    def read(self, sequence, first, length):
        part = slice(first, first + length)
        return self.values[sequence][part], list(self.weights[sequence][part])


SEQUENCES = range(len(Inputs.lengths))


def one_batch():
    """All the sequences in one batch of packed blocks, and a filler at the end."""
    (batch,) = BlockLoader(Inputs(), batch_frames=40, t_max=10, seed=2)
    assert batch.start_BT.sum(1).tolist() == [4, 3, 1, 0]
    return batch


def alone(part):
    """Outputs of each sequence on its own, the gradients of the parameters and of the inputs."""
    source = Inputs()
    inputs = [values.clone().requires_grad_() for values in source.values]
    outputs, loss = [], 0
    for x, weight in zip(inputs, source.weights, strict=True):
        state, steps = part.init_state(x[:1]), []
        for t in range(len(x)):
            output, state = part.step(x[t : t + 1], state)
            steps.append(output[0])
        outputs.append(torch.stack(steps))
        loss = loss + (outputs[-1] * weight).sum()
    gradients = torch.autograd.grad(loss, [*part.parameters(), *inputs])
    number = len(list(part.parameters()))
    return outputs, gradients[:number], gradients[number:]


def test_a_block_equals_its_sequences_alone():
    part, batch = Nested(), one_batch()
    inputs_BT = batch.frames_BT.clone().requires_grad_()
    outputs_BT, _ = walk(part, inputs_BT, batch.start_BT)
    loss = (outputs_BT[batch.valid_BT] * torch.stack(batch.targets)).sum()
    *gradients, gradient_BT = torch.autograd.grad(loss, [*part.parameters(), inputs_BT])
    outputs, expected_gradients, expected_input_gradients = alone(part)
    close = {"rtol": 1e-11, "atol": 1e-11}
    for s in SEQUENCES:
        here_BT = batch.sequence_BT == s
        torch.testing.assert_close(outputs_BT[here_BT], outputs[s], **close)
        torch.testing.assert_close(gradient_BT[here_BT], expected_input_gradients[s], **close)
    torch.testing.assert_close(tuple(gradients), expected_gradients, **close)
    assert not gradient_BT[~batch.valid_BT].any()


def test_continuing_inside_a_segment_equals_one_shot():
    part, batch = Nested(), one_batch()
    whole_BT, last = walk(part, batch.frames_BT, batch.start_BT)
    for cut in range(1, 10):
        first_BT, state = walk(part, batch.frames_BT[:, :cut], batch.start_BT[:, :cut])
        rest = batch.frames_BT[:, cut:], batch.start_BT[:, cut:]
        second_BT, end = walk(part, *rest, state)
        assert torch.equal(torch.cat([first_BT, second_BT], dim=1), whole_BT), cut
        assert all(map(torch.equal, tree_leaves(end), tree_leaves(last))), cut
        anew_BT, _ = walk(part, *rest)
        assert cut > 6 or not torch.allclose(anew_BT, whole_BT[:, cut:]), cut


def test_a_state_gone_bad_does_not_survive_a_start_and_the_table_has_every_slot():
    part, state = Gru(), torch.full((1, 4), float("nan"), dtype=torch.float64)
    start_BT = torch.tensor([[True, False]])
    outputs_BT, _ = walk(part, torch.zeros(1, 2, 3).double(), start_BT, state)
    assert outputs_BT.isfinite().all()
    with pytest.raises(ValueError):
        walk(part, torch.zeros(1, 3, 3).double(), start_BT)
