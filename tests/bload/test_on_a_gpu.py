"""What only a card can show: its kernels keep sequences apart, nothing waits, and NCCL."""

from copy import deepcopy
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

import bload

varlen = pytest.importorskip("torch.nn.attention.varlen")
pytestmark = pytest.mark.gpu
LENGTHS = [3, 150, 2, 90, 1, 40, 200, 64, 7, 256, 33]
GPU, T_MAX, WIDTH = torch.device("cuda"), 300, 64
NEAR = {torch.float32: {"rtol": 1e-4, "atol": 1e-5}, torch.bfloat16: {"rtol": 0.02, "atol": 0.06}}


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bf16"])
def batch(request):
    """All sequences in blocks of 300, and a filler; without TF32, which would look like a leak."""
    torch.manual_seed(0)
    frames = [torch.randn(length, WIDTH).to(request.param) for length in LENGTHS]
    source = bload.from_dataset(frames, LENGTHS)
    (batch,) = bload.BlockLoader(source, "bload_exact", t_max=T_MAX, batch_slots=4 * T_MAX)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield batch.to(GPU)


def attend(attention, values, **options):
    two = values.unflatten(-1, (2, -1)).transpose(-2, -3)
    return attention(two, two * 0.5, two + 1, **options).transpose(-2, -3).flatten(-2)


def by_bounds(batch, values_BT):
    values_F = values_BT[batch.valid_BT].unflatten(-1, (2, -1))
    parts, outputs_BT = (values_F, values_F * 0.5, values_F + 1), torch.zeros_like(values_BT)
    outputs_F = varlen.varlen_attn(*parts, **batch.varlen(), window_size=(-1, 0))
    outputs_BT[batch.valid_BT] = outputs_F.flatten(1)
    return outputs_BT


def compare(batch, packed, alone):
    """Outputs and gradients of the batch are those of each sequence alone."""
    values_BT = batch.inputs_BT.clone().requires_grad_()
    outputs_BT = packed(batch, values_BT)
    weight = torch.linspace(-1, 1, outputs_BT.shape[-1], device=GPU)
    (grad_BT,) = torch.autograd.grad((outputs_BT[batch.valid_BT] * weight).sum(), values_BT)
    table = batch.segments
    for b, slot, length in torch.stack([table.block_S, table.slot_S, table.length_S], 1).tolist():
        place = b, slice(slot, slot + length)
        values = batch.inputs_BT[place][None].clone().requires_grad_()
        outputs = alone(values)
        (grad,) = torch.autograd.grad((outputs * weight).sum(), values)
        torch.testing.assert_close(outputs_BT[place], outputs[0], **NEAR[values.dtype])
        torch.testing.assert_close(grad_BT[place], grad[0], **NEAR[values.dtype])
    assert not grad_BT[~batch.valid_BT].any()


@pytest.mark.parametrize("form", ["attention_mask", "block_mask", "varlen"])
def test_kernels_of_attention_keep_sequences_apart(form, batch):
    if form == "varlen" and batch.inputs_BT.dtype == torch.float32:
        pytest.skip("the kernel takes half precision alone")
    flex = torch.compile(flex_attention)
    packed = {
        "attention_mask": lambda batch, x_BT: attend(sdpa, x_BT, attn_mask=batch.attention_mask()),
        "block_mask": lambda batch, x_BT: attend(flex, x_BT, block_mask=batch.block_mask()),
        "varlen": by_bounds,
    }
    compare(batch, packed[form], partial(attend, sdpa, is_causal=True))


def test_cudnn_keeps_sequences_apart(batch):
    gru = nn.GRU(WIDTH, 32, 2, bidirectional=True, batch_first=True).to(GPU, batch.inputs_BT.dtype)

    def packed(batch, values_BT):
        return batch.from_packed(gru(batch.to_packed(values_BT))[0])

    compare(batch, packed, lambda values: gru(values)[0])
    bload.check_boundaries(lambda part: packed(part, part.inputs_BT), batch)
    find_form = pytest.importorskip("examples.forms").find_form
    assert find_form(gru, batch) == "packed"  # in evaluation mode


def test_a_recorded_walk_has_the_outputs_and_gradients_of_a_plain_one():
    torch.manual_seed(0)
    batches = [(torch.randn(2, 40, 256), torch.rand(2, 40) < 0.2) for _ in range(3)]
    batches = [(inputs_BT.to(GPU), start_BT.to(GPU)) for inputs_BT, start_BT in batches]
    plain = pytest.importorskip("experiments.benchmarks.gpu").Cell("slots").to(GPU)
    example = tuple(values.clone() for values in batches[0])
    recorded = torch.cuda.make_graphed_callables(deepcopy(plain), example)
    for batch in batches:
        results = []
        for module in (plain, recorded):
            outputs_BT = module(*batch)
            gradients = torch.autograd.grad(outputs_BT.square().sum(), [*module.parameters()])
            results.append([values.detach().clone() for values in (outputs_BT, *gradients)])
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl"])
def test_a_group_of_nccl_has_losses_and_outputs(backend, tmp_path):
    source = bload.from_dataset([torch.randn(length, 8) for length in LENGTHS], LENGTHS)
    dist.init_process_group(backend, f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        model, outputs = nn.parallel.DistributedDataParallel(nn.Linear(8, 1).to(GPU)), []
        for batch in (cpu.to(GPU) for cpu in bload.BlockLoader(source, batch_slots=512)):
            outputs_BT = model(batch.inputs_BT)
            loss_sum = outputs_BT[batch.valid_BT].square().sum()
            bload.mean_loss(loss_sum, batch, batch.valid_BT.sum()).backward()
            outputs += bload.unpack(outputs_BT, batch, gather=True)
        assert sorted(output.sequence for output in outputs) == [*range(len(LENGTHS))]
    finally:
        dist.destroy_process_group()
