"""State over blocks: a block gives what its sequences give alone, forward and backward."""

import pytest
import torch
from torch import nn

from bload import BlockLoader, reset_state, walk
from bload.plan import Block, filler_block


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
        count = inputs.new_zeros(len(inputs), dtype=torch.int64)
        square = inputs.new_ones(len(inputs), 2, 2)
        return {
            "units": (self.fast.init_state(inputs), [self.slow.init_state(inputs), square]),
            "age": count,
        }

    def step(self, inputs, state):
        fast, (slow, square) = state["units"]
        out_fast, fast = self.fast.step(inputs, fast)
        out_slow, slow = self.slow.step(inputs + square.sum((1, 2))[:, None], slow)
        age = state["age"] + 1
        outputs = torch.cat([out_fast, out_slow, age[:, None].double()], dim=1)
        return outputs, {"units": (fast, [slow, square * 0.5]), "age": age}


PARTS = [Gru, Nested]
LENGTHS = [5, 1, 3, 7, 2, 4, 4, 1]


class Inputs:
    lengths = LENGTHS

    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.values = [torch.randn(n, 3, dtype=torch.float64, generator=generator) for n in LENGTHS]
        self.weights = [
            torch.randn(n, 1, dtype=torch.float64, generator=generator) for n in LENGTHS
        ]

    def read(self, sequence, first, length):
        part = slice(first, first + length)
        return self.values[sequence][part], list(self.weights[sequence][part])


def one_batch(t_max=10):
    """All the sequences in one batch of packed blocks, and a filler at the end."""
    loader = BlockLoader(Inputs(), "bload", batch_frames=4 * t_max, t_max=t_max, seed=2)
    (batch,) = loader
    assert batch.start_BT.sum() == len(LENGTHS)
    assert batch.start_BT[:, 1:].any()
    assert not batch.valid_BT[-1].any()
    return batch


def weighted_sum(outputs_BT, batch):
    return (outputs_BT[batch.valid_BT] * torch.stack(batch.targets)).sum()


def alone(part):
    """Outputs of each sequence on its own, the gradients of all, and of the inputs."""
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


@pytest.mark.parametrize("kind", PARTS)
def test_a_block_equals_its_sequences_alone(kind):
    part, batch = kind(), one_batch()
    inputs_BT = batch.frames_BT.clone().requires_grad_()
    outputs_BT, _ = walk(part, inputs_BT, batch.start_BT)
    *parameter_gradients, input_gradient_BT = torch.autograd.grad(
        weighted_sum(outputs_BT, batch), [*part.parameters(), inputs_BT]
    )
    outputs, expected_gradients, expected_input_gradients = alone(part)
    for s in range(len(LENGTHS)):
        here_BT = batch.sequence_BT == s
        torch.testing.assert_close(outputs_BT[here_BT], outputs[s], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            input_gradient_BT[here_BT], expected_input_gradients[s], rtol=1e-11, atol=1e-11
        )
    for mine, expected in zip(parameter_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-11, atol=1e-11)
    assert not input_gradient_BT[~batch.valid_BT].any()


@pytest.mark.parametrize("wrong", ["missing", "late", "none", "everywhere"])
def test_a_wrong_start_table_gives_something_else(wrong):
    part, batch = Gru(), one_batch()
    start_BT = batch.start_BT.clone()
    inner = start_BT[:, 1:].nonzero()[0] + torch.tensor([0, 1])
    if wrong == "missing":
        start_BT[inner[0], inner[1]] = False
    elif wrong == "late":
        start_BT[inner[0], inner[1]] = False
        start_BT[inner[0], inner[1] + 1] = True
    else:
        start_BT[:] = wrong == "everywhere"
    outputs_BT, _ = walk(part, batch.frames_BT, start_BT)
    outputs, *_ = alone(part)
    differs = [
        not torch.allclose(outputs_BT[batch.sequence_BT == s], outputs[s], atol=1e-6)
        for s in range(len(LENGTHS))
    ]
    assert any(differs)


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("cut", range(1, 10))
def test_going_on_in_mid_segment_equals_one_shot(kind, cut):
    part, batch = kind(), one_batch()
    whole_BT, last = walk(part, batch.frames_BT, batch.start_BT)
    first_BT, state = walk(part, batch.frames_BT[:, :cut], batch.start_BT[:, :cut])
    second_BT, end = walk(part, batch.frames_BT[:, cut:], batch.start_BT[:, cut:], state)
    assert torch.equal(torch.cat([first_BT, second_BT], dim=1), whole_BT)
    for mine, expected in zip(_leaves(end), _leaves(last), strict=True):
        assert torch.equal(mine, expected)


def test_the_given_state_matters_in_mid_segment():
    part, batch = Gru(), one_batch()
    whole_BT, _ = walk(part, batch.frames_BT, batch.start_BT)
    anew_BT, _ = walk(part, batch.frames_BT[:, 2:], batch.start_BT[:, 2:])
    assert not torch.allclose(anew_BT, whole_BT[:, 2:])


def test_no_gradient_crosses_a_start():
    part = Gru()
    inputs_BT = torch.randn(1, 6, 3, dtype=torch.float64, requires_grad=True)
    start_BT = torch.tensor([[True, False, False, True, False, False]])
    outputs_BT, _ = walk(part, inputs_BT, start_BT)
    (gradient_BT,) = torch.autograd.grad(outputs_BT[:, 3:].sum(), inputs_BT)
    assert (gradient_BT[:, :3] == 0).all()
    assert (gradient_BT[:, 3:] != 0).all()


def test_no_gradient_reaches_the_state_before_a_start():
    part = Gru()
    inputs_BT = torch.randn(2, 3, 3, dtype=torch.float64)
    state = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    start_BT = torch.tensor([[True, False, False], [False, False, False]])
    outputs_BT, _ = walk(part, inputs_BT, start_BT, state)
    (gradient_BD,) = torch.autograd.grad(outputs_BT.sum(), state)
    assert (gradient_BD[0] == 0).all()
    assert (gradient_BD[1] != 0).all()


def test_a_state_gone_bad_does_not_survive_a_start():
    part = Gru()
    state = torch.full((1, 4), float("nan"), dtype=torch.float64)
    outputs_BT, _ = walk(part, torch.zeros(1, 2, 3).double(), torch.tensor([[True, False]]), state)
    assert outputs_BT.isfinite().all()


def test_reset_replaces_the_rows_that_start_in_any_nest():
    start_B = torch.tensor([True, False, True])
    old = {"a": torch.ones(3), "b": (torch.ones(3, 2, 2), [torch.ones(3, 1, dtype=torch.int64)])}
    new = {"a": torch.zeros(3), "b": (torch.zeros(3, 2, 2), [torch.zeros(3, 1, dtype=torch.int64)])}
    state = reset_state(old, new, start_B)
    assert state["a"].tolist() == [0, 1, 0]
    assert state["b"][0].sum((1, 2)).tolist() == [0, 4, 0]
    assert state["b"][1][0].tolist() == [[0], [1], [0]]
    assert old["a"].tolist() == [1, 1, 1]
    assert isinstance(state["b"], tuple)


def test_a_start_table_of_another_length_is_an_error():
    with pytest.raises(ValueError):
        walk(Gru(), torch.zeros(1, 3, 3).double(), torch.ones(1, 2, dtype=torch.bool))


def _leaves(state):
    return torch.utils._pytree.tree_leaves(state)


def test_blocks_carry_the_start_table_that_walk_needs():
    assert filler_block(3).starts.tolist() == []
    block = Block(0, 9, *(torch.tensor(x).numpy() for x in ([4, 2], [0, 0], [3, 5])))
    assert block.starts.tolist() == [0, 3]
