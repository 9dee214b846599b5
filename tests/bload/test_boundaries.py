"""Every form of a batch's boundaries, each proved by "packed = alone", forward and gradient.

B blocks, T slots, S segments, W width, H heads.
"""

import inspect
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from bload import (
    BlockDataset,
    BlockLoader,
    BlockSampler,
    InputError,
    WalkOrder,
    check_boundaries,
    collate_blocks,
    from_dataset,
    make_plan,
    unpack,
)
from tests.bload.conftest import batch_of

LENGTHS = [3, 5, 2, 9, 1, 4, 9, 6]


@pytest.fixture
def sequences():
    torch.manual_seed(0)
    return [torch.randn(length, 8, dtype=torch.float64) for length in LENGTHS]


@pytest.fixture(params=[1, 5], ids=["", "aligned"])
def batch(request, sequences):
    """All sequences in blocks of 10, perhaps a multiple of 5 slots each, and a filler."""
    source = from_dataset([{"frames": one} for one in sequences], LENGTHS, inputs="frames")
    (blocks,) = BlockSampler(LENGTHS, t_max=10, batch_slots=70, multiple_of=request.param)
    return batch_of(source, 7, blocks.step, blocks)


def by_hand(batch):
    """Block, first slot and length of each segment, from the masks alone."""
    for b, (valid_T, start_T) in enumerate(zip(batch.valid_BT, batch.start_BT, strict=True)):
        starts = start_T.nonzero().flatten().tolist()
        for slot, end in pairwise([*starts, len(valid_T)]):
            yield b, slot, int(valid_T[slot:end].sum())


def alone_and_packed(sequences, batch, model, packed):
    """Outputs and gradients of `model` on each sequence alone, and of `packed` on the batch."""
    inputs = [one.clone().requires_grad_() for one in sequences]
    alone = [model(one[None])[0] for one in inputs]
    values_BT = batch.inputs_BT.clone().requires_grad_()
    outputs_BT = packed(values_BT)
    weight = torch.linspace(-1, 1, outputs_BT.shape[-1], dtype=torch.float64)
    sum((one * weight).sin().sum() for one in alone).backward()
    (outputs_BT[batch.valid_BT] * weight).sin().sum().backward()
    for b, slot, length in by_hand(batch):
        s = int(batch.sequence_BT[b, slot])
        here = slice(slot, slot + length)
        torch.testing.assert_close(outputs_BT[b, here], alone[s])
        torch.testing.assert_close(values_BT.grad[b, here], inputs[s].grad)
    assert not values_BT.grad[~batch.valid_BT].any()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_modules_of_torch_see_each_sequence_alone(sequences, batch, kind):
    torch.manual_seed(1)
    cell = kind(8, 6, num_layers=2, bidirectional=True, batch_first=True).double()
    packed = batch.to_packed(batch.inputs_BT)
    assert len(packed.data) == sum(LENGTHS)
    assert packed.batch_sizes.device.type == "cpu"

    def in_blocks(values_BT):
        return batch.from_packed(cell(batch.to_packed(values_BT))[0])

    alone_and_packed(sequences, batch, lambda one: cell(one)[0], in_blocks)
    state = cell(packed)[1]
    state = state[0] if kind is nn.LSTM else state
    for place, (b, slot, _) in enumerate(by_hand(batch)):  # states in the order of the table
        own = cell(sequences[int(batch.sequence_BT[b, slot])][None])[1]
        own = own[0] if kind is nn.LSTM else own
        torch.testing.assert_close(state[:, place], own[:, 0])


def heads(values):
    """``(..., T, 8)`` as queries, keys and values of 2 heads of width 4, ``(..., 2, T, 4)``."""
    two = values.unflatten(-1, (2, 4)).transpose(-2, -3)
    return two, two * 0.5, two + 1


def attend(values, **options):
    """Attention of the heads, joined again."""
    outputs = scaled_dot_product_attention(*heads(values), **options)
    return outputs.transpose(-2, -3).flatten(-2)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_under_the_mask_sees_each_sequence_alone(sequences, batch, causal):
    def packed(values_BT):
        outputs_BT = attend(values_BT, attn_mask=batch.attention_mask(causal))
        parts = heads(values_BT.detach())  # this has no gradient on CPUs
        flexible = flex_attention(*parts, block_mask=batch.block_mask(causal))
        torch.testing.assert_close(flexible.transpose(-2, -3).flatten(-2), outputs_BT)
        assert outputs_BT.isfinite().all()
        return outputs_BT

    alone_and_packed(sequences, batch, partial(attend, is_causal=causal), packed)


def test_arguments_for_varlen_kernels_say_where_each_sequence_is(sequences, batch):
    """The kernels need a GPU; this is their definition, and their signature."""

    def packed(values_BT):
        arguments = batch.varlen()
        values_F = values_BT[batch.valid_BT]
        bounds = arguments["cu_seq_q"].tolist()
        assert max(np.diff(bounds)) == arguments["max_q"] == arguments["max_k"]
        pieces = [attend(values_F[low:high]) for low, high in pairwise(bounds)]
        outputs_BT = torch.zeros_like(values_BT)
        outputs_BT[batch.valid_BT] = torch.cat(pieces)
        return outputs_BT

    alone_and_packed(sequences, batch, attend, packed)
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    assert {*batch.varlen()} <= {*inspect.signature(varlen.varlen_attn).parameters}
    flash = batch.flash_attn()
    assert torch.equal(flash["cu_seqlens_k"], batch.varlen()["cu_seq_k"])
    assert flash["max_seqlen_q"] == 9


def test_packed_parameters_of_megatron_say_where_each_sequence_is(sequences, batch):
    """By their definition: lengths beside the bounds of the slots, which cover all of them."""
    names = batch.thd()
    assert names.pop("qkv_format") == "thd"
    for key in ("cu_seqlens", "max_seqlen"):
        assert names.pop(f"{key}_kv") is names[f"{key}_q"]
    assert names.pop("cu_seqlens_kv_padded") is names["cu_seqlens_q_padded"]
    assert names["cu_seqlens_q"].dtype == names["cu_seqlens_q_padded"].dtype == torch.int32
    padded = names["cu_seqlens_q_padded"].tolist()
    lengths = names["cu_seqlens_q"].diff().tolist()
    assert (padded[0], padded[-1]) == (0, batch.valid_BT.numel())
    assert names["max_seqlen_q"] == max(np.diff(padded)) == 10  # the filler's
    assert lengths.count(0) == int((~batch.valid_BT.any(1)).sum()) > 0

    def packed(values_BT):
        values_N = values_BT.flatten(0, 1)
        outputs_N = torch.zeros_like(values_N)
        for low, count in zip(padded, lengths, strict=False):
            outputs_N[low : low + count] = attend(values_N[low : low + count])
        return outputs_N.view_as(values_BT)

    alone_and_packed(sequences, batch, attend, packed)


@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_jagged_attention_sees_each_sequence_alone(sequences, batch):
    def packed(values_BT):
        outputs_BT = torch.zeros_like(values_BT)
        outputs_BT[batch.valid_BT] = attend(batch.jagged(values_BT)).values()
        return outputs_BT

    alone_and_packed(sequences, batch, attend, packed)


def test_a_convolution_that_obeys_seq_idx_sees_each_sequence_alone(sequences, batch):
    """By the definition of Mamba's causal convolution with ``seq_idx``: taps of equal numbers."""
    weight = torch.randn(3, 8, dtype=torch.float64)

    def convolve(values_BT, idx_BT):
        outputs = torch.zeros_like(values_BT)
        for lag in range(3):
            same = torch.zeros_like(idx_BT, dtype=torch.bool)
            same[:, lag:] = idx_BT[:, lag:] == idx_BT[:, : idx_BT.shape[1] - lag]
            outputs = outputs + same[..., None] * values_BT.roll(lag, 1) * weight[lag]
        return outputs

    assert (batch.seq_idx_BT >= 0).all()
    assert (batch.seq_idx_BT.diff() >= 0).all()
    alone_and_packed(
        sequences,
        batch,
        lambda one: convolve(one, torch.zeros(1, one.shape[1], dtype=torch.int32)),
        lambda values_BT: convolve(values_BT, batch.seq_idx_BT),
    )


@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_a_batch_without_frames_has_every_form(sequences):
    source = from_dataset(sequences, LENGTHS)
    *_, last = BlockLoader(source, t_max=10, rank=5, world_size=6)
    assert not last.valid_BT.any()
    assert not last.segment_position_BT.any()
    assert (last.next_tokens(last.segment_BT) == -100).all()
    assert last.varlen()["max_q"] == 0
    assert last.varlen()["cu_seq_q"].tolist() == [0, 0]  # kernels take no empty list
    values_BT = torch.randn(1, 10, 8, requires_grad=True)
    outputs_BT = torch.zeros_like(values_BT)
    outputs_BT[last.valid_BT] = attend(last.jagged(values_BT)).values()
    for values_S in (last.last(values_BT), last.mean(values_BT), outputs_BT[last.valid_BT]):
        assert values_S.shape == (0, 8)
        (grad_BT,) = torch.autograd.grad(values_S.sum(), values_BT)
        assert not grad_BT.any()
    assert unpack(last.last(values_BT), last, per="sequence") == []
    with pytest.raises(InputError, match="6 ranks, the process group 1"):
        unpack(values_BT, last, gather=True)
    before, cell = nn.Linear(8, 4), nn.LSTM(4, 6, batch_first=True)
    outputs, _ = cell(last.to_packed(before(last.inputs_BT.float())))
    outputs_BT = last.from_packed(outputs)
    assert outputs_BT.shape == (1, 10, 6)
    assert not outputs_BT.any()
    outputs_BT.sum().backward()  # every parameter takes part, as DDP needs
    for parameter in [*before.parameters(), *cell.parameters()]:
        assert parameter.grad is not None
        assert not parameter.grad.any()


def test_shifted_labels_never_cross_a_start(batch):
    tokens_BT = torch.where(batch.valid_BT, batch.sequence_BT * 100 + batch.position_BT, -7)
    labels_BT = batch.next_tokens(tokens_BT, ignore=-1)
    kept_BT = labels_BT != -1
    assert torch.equal(labels_BT[kept_BT], tokens_BT[kept_BT] + 1)
    assert int(kept_BT.sum()) == sum(LENGTHS) - len(LENGTHS)


def test_one_value_a_segment_is_the_last_or_the_mean_of_its_own(batch):
    shape = batch.valid_BT.shape
    values_BT = torch.randn(*shape, 3, dtype=torch.float64, requires_grad=True)
    parts = values_BT[batch.valid_BT].split(batch.segments.length_S.tolist())
    for found_S, wanted in [
        (batch.last(values_BT), [part[-1] for part in parts]),
        (batch.mean(values_BT), [part.mean(0) for part in parts]),
    ]:
        wanted_S = torch.stack(wanted)
        assert torch.allclose(found_S, wanted_S)
        weights = torch.randn_like(wanted_S)
        one, two = (
            torch.autograd.grad((of * weights).sum(), values_BT, retain_graph=True)[0]
            for of in (found_S, wanted_S)
        )
        assert torch.allclose(one, two)
    named = unpack(batch.mean(values_BT), batch, per="sequence")
    assert [output.sequence for output in named] == [*range(len(LENGTHS))]
    for sequence, _, mean in named:
        torch.testing.assert_close(mean, values_BT[batch.sequence_BT == sequence].mean(0))


def test_a_mean_does_not_overflow_and_counts_bools(batch):
    shape = batch.valid_BT.shape
    for values_BT, expected, dtype in (
        (torch.ones(shape, dtype=torch.bool), 1, torch.float32),
        (torch.full(shape, 200, dtype=torch.uint8), 200, torch.float32),
        (torch.full(shape, 2**40 + 1), 2**40, torch.float32),
        (torch.full(shape, 3e4, dtype=torch.float16), 3e4, torch.float16),
        (torch.full(shape, 0.1, dtype=torch.float64), 0.1, torch.float64),
    ):
        mean_S = batch.mean(values_BT)
        assert mean_S.dtype == dtype
        assert torch.allclose(mean_S.double(), torch.tensor(float(expected)).double(), rtol=1e-3)


def test_values_of_another_shape_are_refused_by_both_shapes(batch):
    packed = batch.to_packed(batch.inputs_BT)
    for form in (batch.to_packed, batch.jagged, batch.last, batch.mean, batch.next_tokens):
        with pytest.raises(InputError, match=r"\(10, 7, 8\), the batch begins with \(7, 10\)"):
            form(batch.inputs_BT.transpose(0, 1))
    for mask in (batch.attention_mask, batch.block_mask):
        with pytest.raises(InputError, match="causal is 'no'; choose True or False"):
            mask("no")
    with pytest.raises(InputError, match="inputs_BT is float64"):
        batch.transformers()
    longer = packed._replace(data=torch.cat([packed.data, packed.data]))  # of another batch
    for wrong in (nn.GRU(8, 2).double()(packed), longer):
        with pytest.raises(InputError, match=r"packed, a .* not of this batch"):
            batch.from_packed(wrong)
    with pytest.raises(InputError, match="the values are a PackedSequence"):
        batch.last(packed)
    tokens = replace(batch, inputs_BT=batch.inputs_BT[..., 0].long())
    with pytest.raises(InputError, match="flash_attn needs one row"):
        tokens.transformers(rows=True, flash_attn=True)


def test_forms_are_on_the_device_of_the_batch_whatever_the_default_device(sequences):
    source = from_dataset([(one, len(one)) for one in sequences], LENGTHS, targets_per="sequence")
    plan = make_plan(LENGTHS, "bload", 5, long="carry")
    follows = int(plan.continued.argmax())
    names = ["position_BT", "segment_position_BT", "seq_idx_BT", "continues_B", "targets_S"]
    with torch.device("meta"):
        assert next(iter(BlockLoader(source))).inputs_BT.is_cpu
        dataset = BlockDataset(source)
        batch = collate_blocks([dataset[plan.block(b)] for b in (follows, *range(plan.num_blocks))])
        tokens_BT = batch.inputs_BT[..., 0].long()
        forms = [
            batch.to_packed(batch.inputs_BT).data,
            batch.from_packed(batch.to_packed(batch.inputs_BT)),
            batch.mean(batch.inputs_BT),
            batch.last(batch.inputs_BT),
            batch.attention_mask(),
            batch.block_mask().kv_indices,
            batch.next_tokens(tokens_BT),
            *batch.varlen().values(),
            *batch.thd().values(),
            *replace(batch, inputs_BT=tokens_BT, targets_S=None)
            .transformers(flash_attn=True)
            .values(),
            *(getattr(batch, name) for name in names),
            WalkOrder.of(batch.start_BT).slot_V,
        ]
        check_boundaries(lambda batch: batch.inputs_BT * 2, batch)
    tensors = [form for form in forms if isinstance(form, torch.Tensor)]
    assert [form.device.type for form in tensors] == ["cpu"] * len(tensors)
