"""The whole path from source to batches: every frame once, and resume at every step."""

import json
from functools import partial
from inspect import signature
from itertools import islice
from math import prod

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from bload import (
    PACKERS,
    BlockLoader,
    BlockSampler,
    InputError,
    Planner,
    StreamBlocks,
    StreamLoader,
    make_plan,
)
from bload.packing.packers import find_packer
from bload.schedule.balance import make_schedule
from tests.bload.conftest import rows_of

OWN_BATCHES = [name for name in PACKERS if find_packer(name).makes_batches]


@pytest.fixture
def loader(numbered_source, small_lengths):
    def make(packer="bload", batch_slots=26, **settings):
        source = numbered_source(small_lengths)
        return BlockLoader(source, packer, batch_slots=batch_slots, **settings)

    return make


def test_arguments_are_those_of_the_parts_and_a_mistyped_one_gets_the_nearest_name(numbered_source):
    source = numbered_source([3, 5])
    parts = {**signature(Planner).parameters, **signature(BlockSampler).parameters}
    for name in {*parts} - {"lengths"}:
        assert str(signature(BlockLoader).parameters[name]) == str(parts[name])
    names = {"batch_slot": "batch_slots", "num_worker": "num_workers", "lnog": "long"}
    for wrong, right in {**names, "micro_batch": "micro_batches"}.items():
        with pytest.raises(InputError, match=rf"{wrong}.*{right}\?$"):
            BlockLoader(source, **{wrong: 1})
    with pytest.raises(InputError, match=r"pad is -1.0; give a dict .*inputs"):
        BlockLoader(source, pad=-1.0)
    others = {"epoch": "is neither", "options": "is neither"}  # of functions further in
    for wrong, right in {"batch_size": "batch_slots", "shuffle": "set_epoch", **others}.items():
        with pytest.raises(InputError, match=f"'{wrong}' .*{right}"):
            BlockLoader(source, **{wrong: 1})


def fingerprints(batches) -> list[list]:
    """All that a training step sees, but for the process that read it."""
    return [
        [b.inputs_BT.tolist(), b.valid_BT.tolist(), b.start_BT.tolist(), [t[:2] for t in b.targets]]
        for b in batches
    ]


def rows_of_plan(plan) -> list[list[list[int]]]:
    rows, of_segment = [[] for _ in range(plan.num_blocks)], plan.block_of_segment()
    for b, s, first, n in zip(of_segment, plan.sequence, plan.first, plan.length, strict=True):
        rows[b] += [[int(s), int(first) + i] for i in range(n)]
    return rows


@pytest.mark.parametrize("packer", PACKERS)
def test_every_frame_is_read_once_in_equally_many_batches(packer, loader, small_lengths):
    for ranks in (1, 2, 3, 5, 8):
        loaders = [loader(packer, rank=rank, world_size=ranks, seed=3) for rank in range(ranks)]
        for epoch in (2, 0):
            for one in loaders:
                one.set_epoch(epoch)
            batches = [list(one) for one in loaders]
            assert {len(some) for some in batches} == {len(loaders[0])}
            read = sorted(frame for some in batches for row in rows_of(some) for frame in row)
            own = {"batch_slots": 26} if packer in ("bucket", "ragged") else {}
            plan = make_plan(small_lengths, packer, seed=3, epoch=epoch, **own)
            assert read == sorted(frame for row in rows_of_plan(plan) for frame in row)
            shapes = {tuple(batch.valid_BT.shape) for some in batches for batch in some}
            if packer in OWN_BATCHES:
                assert max(map(prod, shapes)) <= 26
            else:
                assert shapes == {(26 // plan.t_max, plan.t_max)}
            slots = sum(batch.valid_BT.numel() for some in batches for batch in some)
            count = loaders[0].account
            assert count == make_schedule(plan, ranks, 26).account
            assert (slots, slots - len(read)) == (count.processed, count.padding + count.filler)


@pytest.mark.filterwarnings("error")
def test_a_loader_follows_its_own_settings_and_no_global_seed(loader, small_lengths):
    for settings in ({"seed": 0}, {"seed": 5}, {"draw": "length"}, {"t_max": 13}):
        for epoch in (0, 1):
            torch.manual_seed(epoch)
            one = loader(**settings)
            one.set_epoch(epoch)
            plan = make_plan(small_lengths, "bload", epoch=epoch, **settings)
            rows = rows_of(one)
            assert rows[: plan.num_blocks] == rows_of_plan(plan), settings
            assert not any(rows[plan.num_blocks :]), settings
    fill, drop = loader(batch_slots=60), loader(batch_slots=60, last="drop")
    assert (fill.account.filler, drop.account.filler) == (24, 0)
    assert (len(list(fill)), len(list(drop))) == (len(fill), len(fill) - 1)
    few = BlockSampler([10] * 7, batch_slots=40, last="drop")  # one step of four blocks
    assert "x 4 blocks, 4.0 sequences a step" in few.planner.describe(few.position)
    assert "10.0x more slots than padding" in repr(BlockSampler([10], t_max=100))
    with pytest.raises(InputError, match="sequence v0 "):
        loader(t_max=5, names=[f"v{i}" for i in range(40)])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_pass_leaves_the_random_state_of_training_alone(workers, loader):
    streams = StreamLoader(StreamBlocks(range(1, 4), 4, decode=torch.ones), num_workers=workers)
    before = torch.get_rng_state()  # what dropout draws, also after a resume
    for batches in (loader(num_workers=workers), streams):
        assert len([*batches])
        assert torch.equal(torch.get_rng_state(), before), batches


@pytest.mark.parametrize("packer", [*PACKERS, "carry"])
def test_resume_at_every_step_gives_exactly_the_rest(packer, loader):
    if packer == "carry":
        loader, packer = partial(loader, t_max=8, long="carry"), "bload"
    original = loader(packer, batch_slots=48, seed=5)
    original.set_epoch(3)
    whole = fingerprints(original)
    states = [original.sampler.state_dict(0)]
    original.set_epoch(3)
    for _ in original:
        states.append(json.loads(json.dumps(original.state_dict())))
    assert len(states) == len(whole) + 1
    for step, state in enumerate(states):
        resumed = loader(packer, batch_slots=48, seed=5)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        resumed.set_epoch(state["epoch"])
        assert resumed.state_dict() == state
        assert fingerprints(resumed) == whole[step:]
        assert resumed.state_dict()["step"] == len(whole)
        resumed.set_epoch(3)
        assert fingerprints(resumed) == whole  # and then the epoch is whole again
        next(iter(resumed))
        assert resumed.state_dict()["epoch"] == 4


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_persist_follow_the_epoch_and_do_not_move_the_position(workers, loader):
    one, alone = loader(num_workers=workers), loader()
    epochs, readers = [], set()
    for epoch in range(3):
        assert list(islice(one, 2))[1].valid_BT.any()  # left in the middle, it begins again
        assert one.state_dict()["step"] == 2
        one.set_epoch(epoch)
        alone.set_epoch(epoch)
        batches, states = [], []
        for batch in one:
            batches.append(batch)
            states.append(json.loads(json.dumps(one.state_dict())))
        epochs.append(fingerprints(alone))
        assert fingerprints(batches) == epochs[-1]
        assert [state["step"] for state in states] == list(range(1, len(batches) + 1))
        readers |= {target[2] for batch in batches for target in batch.targets}
    assert epochs[0] != epochs[1] != epochs[2]
    assert len(readers) == max(workers, 1)  # the same processes all along
    for step in (1, 3, len(batches), 1):
        one.load_state_dict(states[step - 1])
        one.set_epoch(2)
        assert fingerprints(one) == epochs[2][step:], step


LOCAL = type("Local", (Exception,), {})
"""An exception that cannot be sent from a worker."""


@pytest.mark.parametrize("kind", [FileNotFoundError, InputError, LOCAL])
def test_a_failed_read_is_not_swallowed(kind, small_lengths, numbered_source):
    class Broken(numbered_source):
        def read(self, sequence, first, length):
            if sequence == 17:
                raise kind("frame 3 of sequence 17 is gone")
            return super().read(sequence, first, length)

    with pytest.raises(kind, match=r"^frame 3 of sequence 17 is gone") as caught:
        list(BlockLoader(Broken(small_lengths), batch_slots=26))
    notes = getattr(caught.value, "__notes__", [])
    assert notes == ([] if kind is InputError else ["in read(17, 0, 10)"])
    with_worker = BlockLoader(Broken(small_lengths), batch_slots=26, num_workers=1, timeout=9)
    sent = RuntimeError if kind is LOCAL else kind
    with pytest.raises(sent, match="frame 3 of sequence 17 is gone") as failure:
        list(with_worker)
    # Input that the user can fix stays one sentence, without the worker's traceback.
    assert ("\n" in str(failure.value)) == (kind is not InputError)
    with_worker.torch_loader._iterator._shutdown_workers()  # left to garbage collection: 5 s


def test_lengths_that_their_owner_changes_are_those_of_the_beginning(numbered_source):
    source = numbered_source(np.array([3, 5, 2, 7]))
    loader = BlockLoader(source)
    source.lengths -= 1
    loader.set_epoch(1)
    assert sum(int(batch.valid_BT.sum()) for batch in loader) == 17


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"elastic": 2}, "elastic is 2; choose True or False"),
        ({"num_workers": "2"}, "num_workers is '2'; give a whole number from 0 on"),
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor is 0; give a whole number"),
        ({"num_workers": 1, "timeout": -1}, "DataLoader refuses timeout: timeout .* non-negative"),
        ({"pin_memory": "no"}, "pin_memory is 'no'; choose True or False"),
        ({"seed": 1.5}, "seed is 1.5; give a whole number"),
    ],
)
def test_an_argument_that_would_have_another_effect_is_refused(options, words, numbered_source):
    with pytest.raises(InputError, match=words):
        BlockLoader(numbered_source([3, 5]), **options)


def test_a_loader_inside_a_data_loader_is_refused(numbered_source):
    with pytest.raises(InputError, match="leave the DataLoader around it out"):
        next(iter(DataLoader(BlockLoader(numbered_source([3, 4])))))
