"""Batches on their way from a worker."""

import copy
import resource
import threading
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch

from bload import BlockLoader, InputError, StreamBlocks, StreamLoader, from_dataset


def test_objects_with_many_tensors_arrive_with_few_open_files():
    """Each tensor in a file of its own would end the worker."""
    items = [(torch.zeros(94, 4), [torch.rand(2, 4) for _ in range(94)]) for _ in range(20)]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limit[1]))
    try:
        source = from_dataset(items, [94] * len(items), objects=True)
        for batch in BlockLoader(source, num_workers=1, timeout=60):
            expected = items[batch.segments.sequence_S[0]][1]
            assert torch.equal(torch.stack(batch.targets), torch.stack(expected))
            assert batch.inputs_BT.is_shared()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_targets_that_cannot_be_sent_are_refused_and_need_no_sending_without_workers():
    def read(sequence, first, length):
        return torch.zeros(length), [threading.Lock() if sequence == 1 else 0] * length

    source = SimpleNamespace(lengths=[3, 4], read=read)
    with pytest.raises(InputError, match=r"targets of sequence 1 cannot be sent .*num_workers=0"):
        list(BlockLoader(source, t_max=7, num_workers=1, timeout=60))
    assert len(next(iter(BlockLoader(source, t_max=7))).targets) == 7


@pytest.mark.slow
def test_a_loader_can_be_given_to_spawned_ranks_also_after_a_pass():
    source = from_dataset([torch.zeros(3, 1), torch.zeros(4, 1)], length=len)
    loaders = [BlockLoader(source, t_max=7, num_workers=workers) for workers in (0, 1)]
    loaders.append(StreamLoader(StreamBlocks([torch.zeros(3, 1), torch.zeros(4, 1)], 7)))
    for _ in range(2):
        for loader in loaders:
            torch.multiprocessing.spawn(_take_all, (loader, 7), nprocs=1)
            _take_all(0, loader, 7)


def test_a_loader_that_has_been_read_is_read_in_a_fork_too():
    source = from_dataset([torch.zeros(1, 1)] * 100, len)
    loader = BlockLoader(source, t_max=1, num_workers=1, timeout=60)
    for _ in range(2):
        _take_all(0, loader, 100)
        torch.multiprocessing.start_processes(_take_all, (loader, 100), 2, start_method="fork")


def _take_all(rank: int, loader: BlockLoader | StreamLoader, frames: int) -> None:
    assert sum(int(batch.valid_BT.sum()) for batch in loader) == frames


def test_a_copy_of_a_batch_is_equal_and_can_be_written_to(numbered_source):
    (batch,) = BlockLoader(numbered_source([3, 4, 2]), t_max=9)
    for before in (batch, replace(batch, targets_BT=torch.ones(1, 9, dtype=torch.bfloat16))):
        after = copy.deepcopy(before)
        assert (after.targets, after.step) == (before.targets, before.step)
        for name in [field.name for field in fields(batch)]:
            value = getattr(before, name)
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, getattr(after, name))
                getattr(after, name).zero_()
    assert batch.valid_BT.all()
