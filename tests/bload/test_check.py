"""Which models keep the sequences of one block apart, and which do not."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from bload import BlockLoader, InputError, check_boundaries, from_dataset, walk
from tests.bload.conftest import Cell

torch.manual_seed(0)
GRU = nn.GRU(8, 8, batch_first=True)
CELL, LINEAR = Cell(), nn.Linear(8, 8)
CONVOLUTION = nn.Conv1d(8, 8, 3, padding=1)
EMBEDDING = nn.Embedding(100, 8)


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
    "attention under a mask": lambda batch: attention(batch.inputs_BT, batch.attention_mask()),
    "the same in bfloat16": in_bfloat16,
    "one result per sequence": lambda batch: batch.last(by_packed(batch)),
    "dropout, put into evaluation": Dropout(),
}
WRONG = {
    "a convolution over slots": convolution,
    "one result per sequence": lambda batch: batch.last(convolution(batch)),
    "as little as in a new BERT": lambda batch: batch.inputs_BT + 0.005 * convolution(batch),
    "the gradient alone": leaks_backward,
}


@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_a_model_that_keeps_sequences_apart_passes(batch, model):
    assert check_boundaries(model, batch) < 0.01


@pytest.mark.parametrize("model", WRONG.values(), ids=WRONG)
def test_a_model_that_does_not_is_refused_with_the_pair(batch, model):
    with pytest.raises(InputError, match=r"(sequence \d|padding).*sequence \d.*apart"):
        check_boundaries(model, batch)


def test_one_output_per_long_sequence_is_judged_by_gradients_or_warned_of():
    frames = [torch.randn(40, 8) for _ in range(4)]
    batch = next(iter(BlockLoader(from_dataset(frames, len), t_max=160)))
    with pytest.raises(InputError, match="gradient of sequence"):  # noise is forgotten
        check_boundaries(lambda batch: batch.last(GRU(batch.inputs_BT)[0]), batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_boundaries(RIGHT["one result per sequence"], batch) < 1e-5
    tokens = replace(batch, inputs_BT=batch.inputs_BT[..., 0].abs().long())  # without a gradient
    with pytest.warns(UserWarning, match="check it on shorter sequences"):
        check_boundaries(lambda batch: batch.last(GRU(EMBEDDING(batch.inputs_BT))[0]), tokens)


def test_padding_and_tokens_count_too(batch):
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
    source = from_dataset([torch.randn(count, 8) for count in (7, 3, 7, 3)], length=len)
    loader = BlockLoader(source, t_max=5, long="carry", batch_slots=10)
    batch = next(one for one in loader if one.continues_B.any())
    state = torch.randn(2, 8)
    assert check_boundaries(lambda b: walk(CELL, b.inputs_BT, b.start_BT, state)[0], batch) < 0.01
    with pytest.raises(InputError, match="other outputs in its block than alone"):
        check_boundaries(lambda b: b.inputs_BT + state[:, None], batch)  # never cleared


def test_what_cannot_be_compared_is_refused_and_a_filler_passes(batch):
    with pytest.raises(InputError, match="dropout"):
        check_boundaries(lambda batch: torch.rand(2, 5, 8), batch)
    source = from_dataset([torch.randn(3, 8)], length=len)
    with pytest.raises(InputError, match="a BlockLoader in place of a Batch"):
        check_boundaries(lambda batch: batch.inputs_BT, BlockLoader(source))
    (filler,) = BlockLoader(source, rank=1, world_size=2)
    assert check_boundaries(WRONG["a convolution over slots"], filler) == 0.0


def test_a_batch_that_cannot_tell_and_what_is_no_function_of_a_batch_are_refused(batch):
    source = from_dataset([torch.randn(3, 8)], length=len)
    (alone,) = BlockLoader(source)
    with pytest.raises(InputError, match="no block of this batch holds two"):
        check_boundaries(convolution, alone)
    assert check_boundaries(convolution, alone, alone=lambda x: CONVOLUTION(x.mT).mT) < 1e-5
    for run in (lambda batch: batch.inputs_BT.mean(1), lambda batch: (batch.inputs_BT, None), GRU):
        with pytest.raises(InputError, match=r"(outputs are|takes no batch) .*; give a function"):
            check_boundaries(run, batch)


def short_texts(count, slots):
    """A block of tokens, each text up to a dozen long."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(4, 13, (count,), generator=generator).tolist()
    texts = [torch.randint(100, (n,), generator=generator) for n in lengths]
    return next(iter(BlockLoader(from_dataset(texts, lengths), t_max=slots)))


def test_mixing_that_is_diluted_in_a_long_block_is_found():
    batch = short_texts(120, 1024)

    def mixes_a_little(batch):
        values_BT = EMBEDDING(batch.inputs_BT)
        return values_BT + 0.001 * values_BT.mean(1, keepdim=True)

    with pytest.raises(InputError, match=r"changes sequence \d+ by .*keep them apart"):
        check_boundaries(mixes_a_little, batch)


def by_slot(batch):
    positions_T = torch.linspace(0, 3, batch.valid_BT.shape[1])
    return EMBEDDING(batch.inputs_BT) + positions_T[:, None]


def windowed(values_TD, mask_TT):
    """Attention over the last three slots, or over what a mask shows instead."""
    slots_T = torch.arange(len(values_TD))
    window_TT = (slots_T[:, None] - slots_T).abs() < 3
    return attention(values_TD[None], (window_TT if mask_TT is None else mask_TT)[None, None])[0]


def replaces_its_window(batch):
    masks = batch.attention_mask(causal=False)[:, 0]
    rows = zip(EMBEDDING(batch.inputs_BT), masks, strict=True)
    return torch.stack([windowed(*row) for row in rows])


def test_outputs_that_are_not_those_of_the_sequence_alone_are_refused():
    batch = short_texts(12, 64)
    with pytest.raises(InputError, match=r"sequence \d+ has other outputs .* than alone, by"):
        check_boundaries(by_slot, batch)
    assert check_boundaries(replaces_its_window, batch) < 1e-5  # in its own batch too

    def window(frames):
        return windowed(EMBEDDING(frames), None)

    with pytest.raises(InputError, match="has other outputs in its block than alone"):
        check_boundaries(replaces_its_window, batch, alone=window)

    def gru(frames):
        return GRU(EMBEDDING(frames)[None])[0][0]

    def packed(batch):
        return batch.from_packed(GRU(batch.to_packed(EMBEDDING(batch.inputs_BT)))[0])

    assert 0 < check_boundaries(packed, batch, alone=gru) < 1e-5
    last = check_boundaries(lambda b: b.last(packed(b)), batch, alone=lambda x: gru(x)[-1])
    assert last < 1e-5
    with pytest.raises(InputError, match=r"alone returned Tensor \(1, "):
        check_boundaries(packed, batch, alone=lambda frames: gru(frames)[None])


def test_nan_on_padding_does_not_count_and_a_tolerance_of_zero_is_one(batch):
    def nan_on_padding(batch):
        return batch.inputs_BT.detach().where(batch.valid_BT[..., None], torch.nan)

    assert check_boundaries(nan_on_padding, batch) == 0.0
    with pytest.raises(InputError, match="outputs are NaN and not checked"):
        check_boundaries(lambda batch: batch.inputs_BT / 0 * 0, batch)
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode, pytest.raises(InputError, match="the gradient of"):
            check_boundaries(leaks_backward, batch)
    with pytest.raises(InputError, match="keep them apart"):
        check_boundaries(lambda b: b.inputs_BT + 1e-6 * b.inputs_BT.mean(), batch, tolerance=0)


def test_a_model_that_sees_single_frames_is_named():
    frames = [torch.randn(n, 8) for n in (5, 7, 4)]
    batch = next(iter(BlockLoader(from_dataset(frames, len), t_max=16)))
    by_row = nn.GRU(8, 4)  # batch_first was forgotten
    with pytest.warns(UserWarning, match="first frames .*batch_first"):
        check_boundaries(lambda batch: by_row(batch.inputs_BT)[0], batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_boundaries(by_packed, batch)
