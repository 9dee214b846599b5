"""Boundaries and batches on a card: each form gives "packed = alone", forward and gradient.

B blocks, T slots, S segments, V valid frames, W width.
"""

from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import group
from torch.nn.attention import varlen
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from bload import (
    BlockLoader,
    InputError,
    StreamLoader,
    check_boundaries,
    from_dataset,
    mean_loss,
    unpack,
    walk,
)

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda")
LENGTHS = [3, 150, 2, 90, 1, 40, 200, 64, 7, 256, 33]
T_MAX, WIDTH, HEADS = 300, 64, 2
NEAR = {torch.float32: {"rtol": 1e-4, "atol": 1e-5}, torch.bfloat16: {"rtol": 0.02, "atol": 0.06}}


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bf16"])
def dtype(request):
    """Float32 without TF32, so that it can be told from a leak."""
    with torch.backends.cudnn.flags(allow_tf32=False):
        yield request.param


@pytest.fixture
def batch(dtype):
    """All sequences in blocks of 300, and a filler."""
    torch.manual_seed(0)
    source = from_dataset([torch.randn(length, WIDTH).to(dtype) for length in LENGTHS], LENGTHS)
    (batch,) = BlockLoader(source, "bload_exact", t_max=T_MAX, batch_slots=4 * T_MAX)
    assert not batch.valid_BT[-1].any()
    return batch.to(GPU)


def heads(values):
    """``(..., T, 64)`` as queries, keys and values of 2 heads, ``(..., 2, T, 32)``."""
    two = values.unflatten(-1, (HEADS, -1)).transpose(-2, -3)
    return two, two * 0.5, two + 1


def joined(outputs):
    return outputs.transpose(-2, -3).flatten(-2)


def recurrent(kind, dtype):
    cell = kind(WIDTH, 32, num_layers=2, bidirectional=True, batch_first=True).to(GPU, dtype)
    return (
        lambda one: cell(one)[0],
        lambda batch, values_BT: batch.from_packed(cell(batch.to_packed(values_BT))[0]),
    )


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(WIDTH, WIDTH)

    def init_state(self, inputs_BD):
        return torch.zeros_like(inputs_BD)

    def step(self, inputs_BD, state):
        state = self.cell(inputs_BD, state)
        return state, state


def walked(dtype):
    cell = Cell().to(GPU, dtype)

    def alone(one):
        return walk(cell, one, torch.arange(one.shape[1], device=GPU)[None] == 0)[0]

    return alone, lambda batch, values_BT: walk(cell, values_BT, batch.start_BT)[0]


def attended(dtype):
    def packed(batch, values_BT):
        outputs = scaled_dot_product_attention(*heads(values_BT), attn_mask=batch.attention_mask())
        return joined(outputs)

    return causal, packed


def causal(one):
    return joined(scaled_dot_product_attention(*heads(one), is_causal=True))


def flexible(dtype):
    flex = torch.compile(flex_attention)
    return causal, lambda batch, values_BT: joined(
        flex(*heads(values_BT), block_mask=batch.block_mask())
    )


def by_bounds(dtype, **padded):
    def packed(batch, values_BT):
        values_V = (of.transpose(-2, -3) for of in heads(values_BT[batch.valid_BT]))
        values_V = [of.contiguous() for of in values_V]
        outputs_V = varlen.varlen_attn(*values_V, **batch.varlen(**padded), window_size=(-1, 0))
        outputs_BT = torch.zeros_like(values_BT)
        outputs_BT[batch.valid_BT] = outputs_V.flatten(1)
        return outputs_BT

    return causal, packed


def placed(dtype):
    place = nn.Embedding(T_MAX, WIDTH).to(GPU, dtype)

    def alone(one):
        return one * place(torch.arange(one.shape[1], device=GPU))

    return alone, lambda batch, values_BT: values_BT * place(batch.segment_position_BT)


FORMS = {
    "gru": partial(recurrent, nn.GRU),
    "lstm": partial(recurrent, nn.LSTM),
    "walk": walked,
    "attention_mask": attended,
    "block_mask": flexible,
    "varlen": by_bounds,
    "varlen, padded": partial(by_bounds, segments=20),
    "positions": placed,
}


@pytest.mark.parametrize("form", FORMS)
def test_packed_is_alone(form, dtype, batch):
    if form.startswith("varlen") and dtype == torch.float32:
        pytest.skip("the kernel takes half precision alone")
    torch.manual_seed(1)
    model, packed = FORMS[form](dtype)
    values_BT = batch.inputs_BT.clone().requires_grad_()
    outputs_BT = packed(batch, values_BT)
    weight = torch.linspace(-1, 1, outputs_BT.shape[-1], device=GPU)
    (grad_BT,) = torch.autograd.grad((outputs_BT[batch.valid_BT] * weight).sum(), values_BT)
    of = batch.segments
    table = torch.stack([of.block_S, of.slot_S, of.length_S], 1)
    for b, slot, length in table.tolist():
        here = slice(slot, slot + length)
        one = batch.inputs_BT[b, here][None].clone().requires_grad_()
        alone = model(one)
        (grad,) = torch.autograd.grad((alone * weight).sum(), one)
        torch.testing.assert_close(outputs_BT[b, here], alone[0], **NEAR[dtype])
        torch.testing.assert_close(grad_BT[b, here], grad[0], **NEAR[dtype])
    assert not grad_BT[~batch.valid_BT].any()


def test_a_model_is_checked_on_the_card(dtype, batch):
    torch.manual_seed(1)
    gru = nn.GRU(WIDTH, 32, batch_first=True).to(GPU, dtype)
    before = torch.cuda.get_rng_state()
    change = check_boundaries(
        lambda one: one.from_packed(gru(one.to_packed(one.inputs_BT))[0]), batch
    )
    assert change < (1e-3 if dtype == torch.float32 else 0.05)
    flex = torch.compile(flex_attention)
    check_boundaries(
        lambda one: joined(flex(*heads(one.inputs_BT), block_mask=one.block_mask())), batch
    )
    with pytest.raises(InputError, match="does not keep them apart"):
        check_boundaries(lambda one: gru(one.inputs_BT)[0], batch)
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_forms_and_copies_wait_for_nothing(batch):
    hosted = batch.to("cpu").pin_memory()
    torch.cuda.set_sync_debug_mode("error")
    try:
        moved = hosted.to(GPU, non_blocking=True)
        values_BT = moved.inputs_BT.float()
        tokens_BT = moved.next_tokens(moved.segment_position_BT)
        forms = (moved.cu_seqlens, moved.position_BT, moved.seq_idx_BT, moved.attention_mask())
        forms += (moved.block_mask().kv_indices, moved.varlen()["cu_seq_q"], tokens_BT)
        forms += (moved.last(values_BT), moved.mean(values_BT), moved.segment_BT)
        assert moved.max_seqlen == max(LENGTHS)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert {form.device.type for form in forms} == {"cuda"}
    assert torch.equal(forms[0].cpu(), batch.cu_seqlens.cpu())
    for s, values in enumerate(unpack(moved.mean(values_BT), moved, per="sequence")):
        assert values.sequence == s


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl"])
def test_a_group_of_nccl_has_losses_outputs_and_streams(backend, tmp_path):
    sequences = [torch.randn(length, 8) for length in LENGTHS]
    dist.init_process_group(backend, f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1).to(GPU))
        outputs = []
        for batch in BlockLoader(from_dataset(sequences, LENGTHS), batch_slots=512, num_workers=1):
            batch = batch.to(GPU)
            outputs_BT = model(batch.inputs_BT)
            loss_sum = outputs_BT[batch.valid_BT].square().sum()
            by_step, by_count = (
                mean_loss(loss_sum, batch, of) for of in (None, batch.valid_BT.sum())
            )
            torch.testing.assert_close(by_step, by_count)
            by_step.backward()
            check_boundaries(
                lambda one: model.module(one.inputs_BT), batch, process_group=group.WORLD
            )
            outputs += unpack(outputs_BT, batch, gather=True)
        assert sorted(output.sequence for output in outputs) == [*range(len(LENGTHS))]
        stream = StreamLoader(sequences, t_max=T_MAX, batch_slots=T_MAX)
        frames = sum(int(batch.to(GPU).valid_BT.sum()) for batch in stream)
        assert frames == sum(LENGTHS)
        assert stream.state_dict()
    finally:
        dist.destroy_process_group()
