"""Training on a GPU, as far as a machine without one can tell: devices, precisions and waits.

Tensors of the GPU have no values here, so an operation whose result the host needs raises.
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves

from bload import BlockDataset, InputError, collate_blocks, from_dataset, make_plan
from bload.batch.trees import to_device
from models import build_model, criterion
from models.criterion import Criterion, loss_divisors
from models.matcher import Matches, matching_cost
from models.network_input import NetworkInput
from models.targets import to_tensors
from models.temporal import TEMPORAL_PARTS
from models.tensor_network import TensorNetwork
from tests.models.conftest import annotate
from training import ranks
from training.compose import compose_job
from training.optimiser import build_optimisers

GPU = torch.device("cuda", 0)
STARTS = torch.tensor([[True, False, True, False], [True, False, False, False]])


class WithoutValues(FakeTensorMode):
    """Runs what is on the GPU without values, and the rest as always; counts copies that wait."""

    def __init__(self):
        super().__init__(allow_non_fake_inputs=True)
        self.waits = self.copies = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        there = any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs)))
        goes_to = torch.device(kwargs.get("device") or "cpu")
        if not there and goes_to.type == "cpu":
            return func(*args, **kwargs)
        to_host = there and kwargs.get("device") is not None and goes_to.type == "cpu"
        from_host = func is torch.ops.aten._to_copy.default and goes_to.type == "cuda" and not there
        goes_on = kwargs.get("non_blocking")
        if func is torch.ops.aten.copy_.default:
            from_host = args[0].device.type == "cuda" and args[1].device.type == "cpu"
            goes_on = args[2:] == (True,)
        self.copies += from_host
        self.waits += to_host or (from_host and not goes_on)
        return super().__torch_dispatch__(func, types, args, kwargs)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    with WithoutValues() as mode:
        yield mode


def match(predictions, targets, boxes):
    """As `models.matcher.match`: the costs go to the host, and pairs come back."""
    matching_cost(predictions, targets, boxes).cpu()
    frames = [frame for frame, count in enumerate(targets.objects) for _ in range(count)]
    frame_P = to_device(torch.tensor(frames), GPU)
    pairs_LP = frame_P.expand(len(predictions.outputs_LFNC), -1)
    return Matches(frame_P, pairs_LP, pairs_LP)


CASES = [
    *((f"model={name}", amp) for name in ("dds", "dds_tiny") for amp in (True, False)),
    *((f"model.temporal={part}", True) for part in TEMPORAL_PARTS),
    ("model.skip_padding=true", True),
]


@pytest.mark.parametrize(("override", "amp"), CASES)
def test_a_step_has_one_precision_and_waits_for_the_matcher_alone(gpu, override, amp, monkeypatch):
    monkeypatch.setattr(criterion, "match", match)
    layers = ["model.encoder_layers=1", "model.decoder_layers=2", "model.temporal_layers=1"]
    cfg = compose_job("train", ["model=dds_tiny", override, *layers])
    with GPU:
        model = build_model(cfg.model).train()
    gpu.waits = 0
    model.recomputed_share = 0.5
    losses_of = Criterion(**vars(cfg.loss))
    valid = torch.tensor([[True, True, True, False], [True, True, True, True]])
    extents = torch.rand(2, 4, 2) / 2 + 0.5
    precisions = set()
    for module in model.backbone.modules():
        module.register_forward_hook(lambda *call: precisions.add(call[2].dtype))
    pixels = torch.zeros(2, 4, 3, 64, 64, dtype=torch.uint8, device=GPU)
    inputs = NetworkInput(pixels, STARTS, valid, extents, torch.ones(2, 4))
    with torch.autocast("cuda", torch.bfloat16, enabled=amp):
        outputs = model(inputs)
    targets = to_tensors(annotate(0, 7), GPU)
    losses = losses_of(outputs, targets, valid, loss_divisors(targets.objects, model.queries))
    assert losses["loss"].device == GPU
    assert losses["loss"].dtype == torch.float32
    if override == "model=dds" or not amp:  # torch computes group norms in float32
        assert precisions == {torch.bfloat16 if amp else torch.float32}
    optimisers = build_optimisers(model, cfg.train)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimiser in optimisers:
        optimiser.step()
    assert gpu.waits == 1  # costs


@pytest.mark.parametrize("part", TEMPORAL_PARTS)
def test_what_is_recorded_copies_nothing_and_waits_for_nothing(gpu, part):
    """A copy from the host would be recorded with the values of one batch."""
    cfg = compose_job("train", ["model=dds_tiny", f"model.temporal={part}", "model.time=gap"])
    with GPU:
        model = build_model(cfg.model).train()
        pixels = torch.zeros(2, 4, 3, 64, 64, dtype=torch.uint8)
    inputs = NetworkInput(pixels, STARTS, STARTS, torch.rand(2, 4, 2) / 2 + 0.5, torch.ones(2, 4))
    network = TensorNetwork(model, inputs, partial(torch.autocast, "cuda", cache_enabled=False))
    tensors = network.tensors(inputs)
    gpu.waits, gpu.copies = 0, 0
    network(*tensors)
    assert (gpu.waits, gpu.copies) == (0, 0)


def test_batches_and_boundaries_wait_for_nothing(gpu):
    source = from_dataset([torch.zeros(count, dtype=torch.int64) for count in (3, 2, 4)], len)
    data, plan = BlockDataset(source), make_plan(source.lengths, "bload", 6)
    batch = collate_blocks([data[plan.block(index)] for index in range(plan.num_blocks)])
    batch = batch.to(GPU, non_blocking=True)
    forms = (
        *(batch.cu_seqlens, batch.segment_position_BT, batch.seq_idx_BT, batch.attention_mask()),
        *(batch.next_tokens(batch.inputs_BT), batch.block_mask().kv_indices, batch.valid_BT),
        *(batch.varlen()["cu_seq_q"], batch.flash_attn()["cu_seqlens_k"], batch.position_BT),
        *(batch.segment_BT, batch.sequence_BT, batch.last(batch.inputs_BT)),
    )
    assert {form.device for form in forms} == {GPU}
    assert batch.max_seqlen == 4
    assert gpu.waits == 0
    with pytest.raises(DynamicOutputShapeException):
        batch.to_packed(batch.inputs_BT)  # as documented, it waits for sizes


def test_every_rank_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [ranks._device("auto", local) for local in (0, 1)] == [GPU, torch.device("cuda", 1)]
    with pytest.raises(InputError, match=r"rank 2 .* torch sees 2"):
        ranks._device("auto", 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")  # as Slurm gives each process one
    assert ranks._device("cuda", 3) == GPU
