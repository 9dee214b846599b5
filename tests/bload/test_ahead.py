"""Epochs planned by another process are those planned here, whatever becomes of that process."""

import copy
import gc
import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bload import PACKERS, BlockLoader, BlockSampler, Cost, InputError
from bload.ahead import Ahead
from bload.packers import naive

ROOT = Path(__file__).parents[2]
LENGTHS = np.random.default_rng(1).integers(1, 13, 200)


def sampler_of(ahead, **settings):
    place = {"rank": 1, "world_size": 2, "batch_frames": 26, "seed": 4}
    return BlockSampler(LENGTHS, **(place | settings), ahead=ahead)


def arrays(dealt):
    """All that an epoch is, as bytes."""
    plan = dealt.plan
    parts = (plan.sequence, plan.first, plan.length, plan.offsets, plan.slots)
    return [part.tobytes() for part in (*parts, dealt.block, dealt.slots, dealt.shares)]


def start(sampler):
    """Begin an epoch, and with it the plan of the next; return the process that makes it."""
    next(iter(sampler))
    return sampler.ahead._running[1]


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"packer": "bload", "deal": "window", "micro_batches": 2, "cost": Cost(pair=0.1)},
        {"shapes": [12, 6], "last": "drop"},
    ],
)
def test_every_epoch_is_the_one_planned_here(settings):
    ahead, inline = sampler_of(True, **settings), sampler_of(False, **settings)
    for epoch in (0, 1, 5, 6):  # some follow each other, one does not
        for sampler in (ahead, inline):
            sampler.set_epoch(epoch)
        is_planned = ahead.ahead._running is not None and ahead.ahead._running[0] == epoch
        assert is_planned == (epoch in (1, 6))
        assert arrays(ahead.dealt) == arrays(inline.dealt)
        assert ahead.dealt.plan is ahead.plan
        assert not ahead.plan.sequence.flags.writeable
        rows = [[[b.sequence.tolist() for b in blocks] for blocks in s] for s in (ahead, inline)]
        assert rows[0] == rows[1]


def test_the_epoch_of_a_killed_planner_is_planned_here():
    ahead, inline = sampler_of(True), sampler_of(False)
    planner = start(ahead)
    planner.kill()
    for sampler in (ahead, inline):
        sampler.set_epoch(1)
    with pytest.warns(
        UserWarning, match="planned epoch 1 ended with status -9; it is planned anew"
    ):
        dealt = ahead.dealt
    assert arrays(dealt) == arrays(inline.dealt)
    assert start(ahead).pid != planner.pid  # and the next epoch is planned ahead again


def test_no_process_is_left():
    ahead = sampler_of(True)
    skipped = start(ahead)
    ahead.set_epoch(5)
    second = start(ahead)
    assert skipped.poll() is not None
    assert not is_there(skipped.pid)
    ahead.ahead.close()
    assert not is_there(second.pid)
    third = start(ahead)
    assert is_there(third.pid)
    copies = copy.deepcopy(ahead), pickle.loads(pickle.dumps(ahead))
    assert [one.ahead._running for one in copies] == [None, None]
    del copies
    assert third.poll() in (None, 0)
    del ahead
    gc.collect()
    assert not is_there(third.pid)


PARENT = """
import sys, time
from functools import partial
from bload.ahead import Ahead
ahead = Ahead()
ahead.start(1, "naive", partial(time.sleep, 900), id)
print(ahead._running[1].pid, flush=True)
time.sleep(900 if sys.argv[1] == "wait" else 0)
"""


@pytest.mark.dist
@pytest.mark.parametrize("way", ["wait", "exit"])
def test_a_planner_ends_with_the_process_that_started_it(way):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, way], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        planner = int(parent.stdout.readline())
        if way == "wait":
            parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 600
    while is_there(planner) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(planner)


@pytest.mark.dist
def test_a_loader_with_workers_plans_ahead_in_one_process(numbered_source):
    options = {"num_workers": 1, "batch_frames": 240}
    loaders = [BlockLoader(numbered_source(LENGTHS), ahead=a, **options) for a in (True, False)]
    for epoch in (0, 1):
        for loader in loaders:
            loader.set_epoch(epoch)
        one, other = ([batch.sequence_BT.tolist() for batch in loader] for loader in loaders)
        assert one == other
    assert loaders[0].sampler.ahead._running[0] == 2


OWN_PACKER = """
from bload.packers import naive

def pack(lengths, t_max, rng):
    print("packed")
    return naive.pack(lengths[::-1], t_max, rng)
"""


def test_a_packer_of_ones_own_is_found_if_it_is_in_a_module(monkeypatch, tmp_path):
    (tmp_path / "own_packer.py").write_text(OWN_PACKER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(PACKERS, "own", importlib.import_module("own_packer").pack)
    ahead, inline = sampler_of(True, packer="own"), sampler_of(False, packer="own")
    start(ahead)
    for sampler in (ahead, inline):
        sampler.set_epoch(1)
    assert arrays(ahead.dealt) == arrays(inline.dealt)
    monkeypatch.setitem(PACKERS, "own", lambda lengths, t_max, rng: naive.pack(lengths, t_max, rng))
    with pytest.raises(InputError, match="the packer own cannot be sent"):
        start(sampler_of(True, packer="own"))
    monkeypatch.setattr(PACKERS["own"], "__module__", "__main__")
    with pytest.raises(InputError, match="it stands in the program itself"):
        start(sampler_of(True, packer="own"))


def test_a_plan_that_is_asked_for_waits_until_it_is_there():
    ahead = Ahead()
    ahead.start(3, "naive", partial(time.sleep, 0.2), repr)
    assert ahead.take(2) is None  # another one, which ends it
    assert ahead._running is None
