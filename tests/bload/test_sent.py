"""Batches on their way to another process."""

import copy
import pickle
from dataclasses import fields

import pytest
import torch

from bload import BlockLoader
from bload.batch.trees import INLINE_BYTES


@pytest.fixture
def batch(numbered_source):
    return next(iter(BlockLoader(numbered_source([3, 4, 2]), batch_slots=8)))


def leaves(instance):
    """Names and values, those of the segments too."""
    for field in fields(instance):
        value = getattr(instance, field.name)
        yield from leaves(value) if field.name == "segments" else [(field.name, value)]


@pytest.mark.parametrize("send", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_a_batch_arrives_as_it_was_and_can_be_written_to(batch, send):
    arrived = send(batch)
    for (name, before), (_, after) in zip(leaves(batch), leaves(arrived), strict=True):
        if isinstance(before, torch.Tensor):
            assert torch.equal(before, after), name
            assert (before.dtype, before.shape) == (after.dtype, after.shape), name
            after += after.clone()  # read-only memory would warn or crash
        else:
            assert before == after, name
    assert torch.equal(arrived.cu_seqlens, 2 * batch.cu_seqlens)


def test_small_whole_numbers_are_sent_inside_the_message_and_large_masks_by_shared_memory(
    batch, numbered_source
):
    tensors = [v for v in batch.__getstate__() if isinstance(v, torch.Tensor)]
    assert all(tensor.is_floating_point() for tensor in tensors)
    assert not any(isinstance(value, torch.Tensor) for value in batch.segments.__getstate__())
    (large,) = BlockLoader(numbered_source([INLINE_BYTES]))
    sent = large.__getstate__()
    assert sum(isinstance(value, torch.Tensor) for value in sent) == 3  # inputs and two masks
    assert torch.equal(pickle.loads(pickle.dumps(large)).position_BT, large.position_BT)
