"""Passes over a loader: which epoch each is, what moves it, and what its batches know."""

import weakref

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from bload import (
    BlockDataset,
    BlockLoader,
    BlockSampler,
    InputError,
    collate_blocks,
    from_dataset,
    mean_loss,
)

LENGTHS = [3, 17, 8, 30, 5, 11, 24, 2, 9, 14]


def loader_of(**options):
    sequences = [torch.full((n, 1), number) for number, n in enumerate(LENGTHS)]
    return BlockLoader(from_dataset(sequences, LENGTHS), **options)


def sequences_of(batches):
    return [batch.sequence_BT.tolist() for batch in batches]


def epochs_of(count):
    loader, epochs = loader_of(), []
    for epoch in range(count):
        loader.set_epoch(epoch)
        epochs.append(sequences_of(loader))
    return epochs


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("through", ["loader", "sampler"])
def test_another_epoch_ends_an_iteration_and_the_same_one_does_not(workers, through):
    loader = loader_of(num_workers=workers)
    moves = loader if through == "loader" else loader.sampler
    moves.set_epoch(1)
    batches = iter(loader)
    next(batches)
    moves.set_epoch(1)
    next(batches)
    assert loader.state_dict()["step"] == 2
    moves.set_epoch(0)
    assert loader.state_dict()["step"] == 0
    with pytest.raises(InputError, match="set_epoch or load_state_dict moved it"):
        next(batches)
    first, second = iter(loader), iter(loader)
    next(first)
    next(second)
    with pytest.raises(InputError, match="ended when another of the same loader began"):
        next(first)
    assert len([*second]) == len(loader) - 1
    moves.set_epoch(2)
    resumed = loader_of()
    resumed.load_state_dict(loader.state_dict())
    assert sequences_of(resumed) == epochs_of(3)[2]


def test_a_sampler_under_another_loader_needs_set_epoch_and_ends_its_iterations_too():
    sampler = BlockSampler(LENGTHS)
    first, second = ([blocks[0].sequence.tolist() for blocks in sampler] for _ in range(2))
    assert first == second
    batches = iter(sampler)
    next(batches)
    sampler.set_epoch(1)
    with pytest.raises(InputError, match="moved it"):
        next(batches)


class Augmented:
    """Frames that depend on the sequence and the epoch."""

    lengths = LENGTHS

    def read(self, sequence, first, length, epoch):
        return torch.full((length, 1), 100 * epoch + sequence)


class Wrapped(Dataset):
    def __init__(self, data):
        self.data = data

    def __getitem__(self, block):
        return self.data[block]


class Passing(Wrapped):
    def __getitems__(self, blocks):
        return self.data.__getitems__(blocks)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_source_is_told_the_epoch_and_a_resume_repeats_what_it_drew(workers):
    loader = BlockLoader(Augmented(), num_workers=workers)
    whole = []
    for epoch in (0, 1):
        for batch in loader:
            expected_BT = (100 * epoch + batch.sequence_BT) * batch.valid_BT
            assert torch.equal(batch.inputs_BT[..., 0], expected_BT)
            whole.append(batch.inputs_BT)
            if len(whole) == loader.steps + 2:
                state = loader.state_dict()
    resumed = BlockLoader(Augmented(), num_workers=workers)
    resumed.load_state_dict(state)
    rest = [batch.inputs_BT for batch in resumed]
    assert len(rest) == resumed.steps - 2
    assert all(map(torch.equal, rest, whole[-len(rest) :]))


@pytest.mark.parametrize("kind", [Wrapped, Passing])
def test_a_batch_knows_its_step_if_the_data_set_takes_batches_whole(kind):
    source = from_dataset([torch.ones(n, 1) for n in LENGTHS], LENGTHS)
    sampler = BlockSampler(LENGTHS, rank=0, world_size=2)
    data = DataLoader(kind(BlockDataset(source)), batch_sampler=sampler, collate_fn=collate_blocks)
    for batch in data:
        assert batch.inputs_BT.sum() == batch.valid_BT.sum()
        if kind is Passing:
            loss = mean_loss(batch.inputs_BT.sum(), batch)
            assert loss == batch.valid_BT.sum() * 2 / batch.frames_in_step
        else:
            with pytest.raises(InputError, match=r"define __getitems__\(blocks\)"):
                mean_loss(batch.inputs_BT.sum(), batch)


def test_the_plan_of_an_epoch_is_freed_before_the_next_is_made(monkeypatch):
    sampler = BlockSampler([3, 4, 5] * 4, t_max=9)
    plan, make = weakref.ref(sampler.plan), sampler.planner.make_plan_of
    monkeypatch.setattr(sampler.planner, "make_plan_of", lambda epoch: (plan(), make(epoch)))
    assert sampler.planner.plan(1)[0] is None
