"""Ways to compute that change nothing: padding left out, activations recomputed or on the host,
walks by slots.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing._internal.logging_tensor import capture_logs_with_logging_tensor_mode

import models.dds
from models.outputs import trained_fields
from models.temporal import TEMPORAL_PARTS
from models.tensor_network import TensorNetwork
from tests.models.conftest import gradients, loss_of, random_input, tiny


@pytest.fixture(autouse=True)
def chunks_of_three(monkeypatch):
    """So that a few frames make several chunks."""
    monkeypatch.setattr(models.dds, "RECOMPUTED_AT_ONCE", 3)


@pytest.fixture
def inputs():
    """Three blocks, of which the last is empty."""
    extent_BT2 = torch.linspace(0.2, 1, 36).view(3, 6, 2)
    return replace(random_input([[3, 1], [2], []], slots=6), extent_BT2=extent_BT2)


def values_of(model, inputs, half=False):
    """Predictions of valid frames, and all gradients."""
    torch.manual_seed(4)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        outputs = model(inputs)
    torch.manual_seed(5)  # the backward pass finds another random state than the forward pass
    loss_of(outputs, inputs.valid_BT).backward()
    names = ("person_boxes_LBTN4", "class_logits_LBTNK", "relation_logits_LBTNR")
    found = [getattr(outputs, name)[:, inputs.valid_BT].detach() for name in names]
    gradient = gradients(model)
    assert gradient.abs().max() > 0.01
    return [*found, gradient]


@pytest.mark.parametrize("changes", [{"anchored": True, "dense": True}, {"norm_first": False}])
@pytest.mark.parametrize("temporal", TEMPORAL_PARTS)
def test_skipped_padding_gives_the_same_outputs_and_gradients(inputs, temporal, changes):
    computed, skipped = (
        values_of(tiny(temporal=temporal, skip_padding=skips, **changes), inputs)
        for skips in (False, True)
    )
    torch.testing.assert_close(skipped, computed, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("dropout", "half"), [(0.3, False), (0.0, True)])
@pytest.mark.parametrize("share", [0.6, 1.0])
def test_random_numbers_and_roundings_are_drawn_again(inputs, monkeypatch, dropout, half, share):
    model = tiny(dropout=dropout)
    model.recomputed_share = share
    model = model.float() if half else model
    again = values_of(model, inputs, half)
    monkeypatch.setattr(models.dds, "checkpoint", lambda encode, *chunk, **_: encode(*chunk))
    kept = values_of(model, inputs, half)
    torch.testing.assert_close(again, kept, rtol=1e-12, atol=1e-6 if half else 1e-12)


def test_every_share_gives_the_same_gradients(inputs):
    """Of 6 pictures: less than a chunk, one, one and a rest, two."""
    model = tiny(skip_padding=True, anchored=True, dense=True)
    kept = values_of(model, inputs)
    for share in (0.1, 0.5, 0.9, 1.0):
        model.recomputed_share = share
        torch.testing.assert_close(values_of(model, inputs), kept, rtol=1e-12, atol=1e-12)


def test_offloading_gives_the_same_gradients_and_takes_the_per_frame_part_alone(
    inputs, monkeypatch
):
    kept, packed = values_of(tiny(), inputs), []

    def hooks(pin_memory):
        assert not pin_memory

        def pack(tensor):
            packed.append(tensor.clone())
            return len(packed) - 1

        return torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__)

    monkeypatch.setattr("models.dds.save_on_cpu", hooks)
    found = values_of(tiny(recompute="offload"), inputs)
    torch.testing.assert_close(found, kept, rtol=0, atol=0)
    assert packed
    assert not [tensor for tensor in packed if tensor.shape[-2:] == (5, 16)]  # of queries


def all_of(outputs: tuple[Tensor, ...], model: torch.nn.Module) -> list[Tensor]:
    loss = torch.stack([values.sin().sum() for values in outputs]).sum()
    return [*outputs, *torch.autograd.grad(loss, [*model.parameters()])]


@pytest.mark.parametrize("part", TEMPORAL_PARTS)
def test_walks_by_slots_have_the_outputs_and_gradients_of_walks_by_segments(inputs, part):
    """With dropout, which draws in the same order."""
    model = tiny(temporal=part, time="gap", dropout=0.2)
    inputs = replace(inputs, gap_BT=torch.arange(18.0).view(3, 6))
    network = TensorNetwork(model, inputs)
    torch.manual_seed(1)
    wanted = all_of(trained_fields(model(inputs)), model)
    torch.manual_seed(1)
    found = all_of(network(*network.tensors(inputs)), model)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


SLOW = pytest.param(48, "aot_eager", marks=pytest.mark.slow)


@pytest.mark.parametrize(("slots", "backend"), [(24, "eager"), SLOW])
def test_it_is_one_graph_for_every_batch_of_a_shape(slots, backend):
    torch._dynamo.reset()
    model, counter = tiny(temporal_layers=1), CompileCounterWithBackend(backend)
    for lengths in ([slots - 5, 5], [3] * (slots // 3), [slots // 2]):
        inputs = random_input([lengths], slots)
        network = TensorNetwork(model, inputs)
        compiled = torch.compile(network.forward, fullgraph=True, backend=counter)
        wanted = all_of(trained_fields(model(inputs)), model)
        found = all_of(compiled(*network.tensors(inputs)), model)
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert counter.frame_count == 1


def test_a_further_slot_takes_at_most_350_calls():
    """Calls per slot are most of what a graph replays."""

    def calls(slots):
        inputs, model = random_input([[slots]], slots=slots), tiny()
        network = TensorNetwork(model, inputs)
        with capture_logs_with_logging_tensor_mode() as called:
            outputs = torch.cat([values.flatten() for values in network(*network.tensors(inputs))])
            torch.autograd.grad(outputs.sum(), [*model.parameters()], allow_unused=True)
        return len(called)

    assert calls(9) - calls(5) <= 4 * 350
