"""Which models keep the sequences of one block apart, and which do not."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from bload import Batch, BlockLoader, InputError, check_boundaries, from_dataset, walk

torch.manual_seed(0)
GRU = nn.GRU(8, 8, batch_first=True)
CELL, LINEAR = nn.GRUCell(8, 8), nn.Linear(8, 8)
CONVOLUTION = nn.Conv1d(8, 8, 3, padding=1)
EMBEDDING = nn.Embedding(100, 8)


class Cell(nn.Module):
    def init_state(self, inputs):
        return torch.zeros(len(inputs), 8)

    def step(self, inputs, state):
        state = CELL(inputs, state)
        return state, state


class Dropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout()

    def forward(self, batch):
        return self.dropout(batch.inputs_BT)


def by_packed(batch):
    return batch.from_packed(GRU(batch.to_packed(batch.inputs_BT))[0])


def attention(values_BT, mask):
    heads = values_BT[:, None]
    return scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)[:, 0]


def in_bfloat16(batch):
    with torch.autocast("cpu", torch.bfloat16):
        return attention(LINEAR(batch.inputs_BT), batch.attention_mask())


def convolution(batch):
    return CONVOLUTION(batch.inputs_BT.mT).mT


def leaks_backward(batch):
    sum_B = batch.inputs_BT.sum((1, 2))[:, None, None]
    return batch.inputs_BT + sum_B - sum_B.detach()


RIGHT = {
    "a GRU by to_packed": by_packed,
    "a cell by walk": lambda batch: walk(Cell(), batch.inputs_BT, batch.start_BT)[0],
    "attention under a mask": lambda batch: attention(batch.inputs_BT, batch.attention_mask()),
    "the same in bfloat16": in_bfloat16,
    "a result a sequence": lambda batch: batch.last(by_packed(batch)),
    "dropout, put into evaluation": Dropout(),
}
WRONG = {
    "a GRU over the row": lambda batch: GRU(batch.inputs_BT)[0],
    "a convolution over slots": convolution,
    "attention without a mask": lambda batch: attention(batch.inputs_BT, None),
    "the mean of the row": lambda batch: batch.inputs_BT - batch.inputs_BT.mean(1, keepdim=True),
    "a result a sequence": lambda batch: batch.last(convolution(batch)),
    "as little as in a new BERT": lambda batch: batch.inputs_BT + 0.005 * convolution(batch),
    "the gradient alone": leaks_backward,
}


@pytest.fixture
def batch():
    """|a a a b b|c c c c .|, or in another order"""
    source = from_dataset([torch.randn(count, 8) for count in (3, 2, 4)], length=len)
    (batch,) = BlockLoader(source, t_max=5, batch_slots=10)
    return batch


@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_a_model_that_keeps_sequences_apart_passes(batch, model):
    assert check_boundaries(model, batch) < 0.01


@pytest.mark.parametrize("model", WRONG.values(), ids=WRONG)
def test_a_model_that_does_not_is_refused_with_the_pair(batch, model):
    with pytest.raises(InputError, match=r"(sequence \d|padding).*sequence \d.*apart"):
        check_boundaries(model, batch)


def test_padding_and_tokens_count_too(batch):
    sees_padding = attention(batch.inputs_BT, batch.attention_mask(causal=False))
    assert sees_padding.shape == (2, 5, 8)

    def padding_sees(batch):
        of_row_B1 = torch.where(batch.valid_BT[..., None], 0, batch.inputs_BT).sum(1, keepdim=True)
        return batch.inputs_BT + of_row_B1

    with pytest.raises(InputError, match="padding replaced by noise"):
        check_boundaries(padding_sees, batch)
    source = from_dataset([torch.randint(100, (count,)) for count in (3, 2)], length=len)
    (tokens,) = BlockLoader(source, t_max=5)
    with pytest.raises(InputError, match="sequence"):
        check_boundaries(lambda batch: GRU(EMBEDDING(batch.inputs_BT))[0], tokens)


def test_a_state_goes_on_in_the_segment_that_it_belongs_to_alone():
    source = from_dataset([torch.randn(count, 8) for count in (7, 3)], length=len)
    loader = BlockLoader(source, t_max=5, long="carry")
    batch = next(one for one in loader if one.continues_B is not None)
    assert len(batch.segments) == 2
    state = torch.randn(1, 8)

    def carried(batch: Batch, state):
        return walk(Cell(), batch.inputs_BT, batch.start_BT, state)[0]

    def never_cleared(batch: Batch, state):
        return batch.inputs_BT + state[:, None]

    assert check_boundaries(carried, batch, state) < 0.01
    with pytest.raises(InputError, match="the state carried in"):
        check_boundaries(never_cleared, batch, state)


def test_what_cannot_be_compared_is_refused_and_a_filler_passes(batch):
    with pytest.raises(InputError, match="dropout"):
        check_boundaries(lambda batch: torch.rand(2, 5, 8), batch)
    source = from_dataset([torch.randn(3, 8)], length=len)
    (filler,) = BlockLoader(source, rank=1, world_size=2)
    assert check_boundaries(WRONG["a convolution over slots"], filler) == 0.0
    model, seeded = Dropout(), torch.get_rng_state()
    check_boundaries(model, batch)
    assert model.training
    assert torch.equal(torch.get_rng_state(), seeded)


def test_a_batch_that_cannot_tell_says_so_and_so_do_outputs_of_another_form(batch):
    source = from_dataset([torch.randn(3, 8)], length=len)
    (alone,) = BlockLoader(source)
    with pytest.warns(UserWarning, match="no block of this batch holds two"):
        assert check_boundaries(WRONG["a convolution over slots"], alone) == 0.0
    for run in (lambda batch: batch.inputs_BT.mean(1), lambda batch: (batch.inputs_BT, None)):
        with pytest.raises(InputError, match="they have to be one tensor"):
            check_boundaries(run, batch)
