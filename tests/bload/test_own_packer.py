"""A packer added from outside, by its one entry in PACKERS, works everywhere in the library."""

import json

import numpy as np
import pytest

from bload import PACKERS, BlockLoader, InputError, Packer, Plan, make_plan
from bload.__main__ import main
from bload.packing.pieces import whole_pieces
from bload.packing.plan import plan_from_blocks


def next_fit(lengths, t_max, rng, *, long="error", order="random"):
    """Whole sequences one after another; a block closes at the first that does not fit."""
    pieces = whole_pieces(lengths, t_max, long)
    blocks, given = [[]], np.arange(len(pieces[2]))
    for piece in given if order == "given" else rng.permutation(given):
        if pieces[2][[*blocks[-1], piece]].sum() > t_max:
            blocks.append([])
        blocks[-1].append(int(piece))
    return plan_from_blocks(blocks, pieces, lengths, t_max)


def ends(lengths, t_max, rng):
    """The last frames of each sequence."""
    kept, numbers = np.minimum(lengths, t_max), np.arange(len(lengths))
    return Plan(t_max, lengths, numbers, lengths - kept, kept, np.arange(len(lengths) + 1))


@pytest.fixture(autouse=True)
def own_packers(monkeypatch):
    monkeypatch.setitem(PACKERS, "next_fit", next_fit)
    monkeypatch.setitem(PACKERS, "ends", Packer(ends, cuts_clips=True))


def test_it_makes_plans_and_batches_with_its_options(numbered_source, small_lengths):
    lengths = small_lengths
    assert make_plan(lengths, "next_fit").t_max == lengths.max()
    assert make_plan(lengths, "ends").t_max == int(lengths.mean())
    assert make_plan(lengths, "next_fit", 5, long="split").deleted == 0
    with pytest.raises(InputError, match=r"'draw'.* next_fit .*long, order"):
        make_plan(lengths, "next_fit", draw="video")
    PACKERS["ends"] = lambda lengths, t_max, rng: [[0], [1]]
    with pytest.raises(InputError, match="the packer ends returned a list; return a Plan"):
        make_plan(lengths, "ends")
    PACKERS["ends"] = Packer(ends, cuts_clips=True)
    for packer, options in [("next_fit", {"order": "given"}), ("ends", {})]:
        loader = BlockLoader(numbered_source(lengths), packer, batch_slots=24, **options)
        read = [tuple(target[:2]) for batch in loader for target in batch.targets]
        assert len(set(read)) == len(read) == loader.sampler.plan.placed
        assert loader.state_dict()["plan"]["packer"] == packer
    assert loader.sampler.plan.deleted == np.maximum(lengths - int(lengths.mean()), 0).sum()


def test_it_stands_in_the_table(capsys):
    assert main(["table", "--split", "test", "--t-max", "100", "--long", "split", "--json"]) == 0
    rows = {row["loader"]: row for row in json.loads(capsys.readouterr().out)["loaders"]}
    found = {name: (row["t_max"], row["deleted"]) for name, row in rows.items()}
    assert (found["next_fit"], found["ends"]) == ((100, 0), found["mix"])
