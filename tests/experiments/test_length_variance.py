"""Every slot of every row is accounted for, and the shapes spread as they say."""

import json
import sys
from itertools import product

import numpy as np
import pytest
import torch

from bload import PACKERS, InputError
from bload.packers import makes_batches
from experiments.length_variance import FULL, SHAPES, draw, main, run
from experiments.sequences import FeatureSequences

OPTIONS = "--longest 20 60 --sequences 40 30 --rows 4 2 --parts 2 7"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("length_variance")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["length_variance.py", *OPTIONS.split(), f"--out={folder}"])
        main()
    record = json.loads((folder / "length_variance.json").read_text())
    assert (record["name"], record["threads"]) == ("length_variance", 1)
    return record["rows"]


def test_every_loader_is_in_every_spread(rows):
    seen = [(row["longest"], row["shape"], row["loader"]) for row in rows]
    blocks = [name for name in PACKERS if not makes_batches(name)]
    for spread in product((20, 60), SHAPES, blocks):
        assert seen.count(spread) == (3 if spread[::2] == (60, "bload") else 1)


def test_slots_add_up(rows):
    for row in rows:
        kept = row["frames"] - row["deleted"]
        assert row["processed"] == kept + row["padding"] + row["filler"]
        assert row["processed"] == row["steps"] * row["batch_frames"]
        assert row["filler"] < row["batch_frames"]
        assert row["blocks"] * row["t_max"] + row["filler"] == row["processed"]
        assert 0 <= row["lower_bound_padding"] <= row["padding"]
        assert min(row["epoch_seconds"], row["epoch_cpu_seconds"]) > 0


def test_only_clips_delete_and_only_short_blocks_hold_pieces(rows):
    for row in rows:
        assert (row["deleted"] > 0) == (row["loader"] in ("sampling", "mix"))
        whole = row["t_max"] == row["longest"] or row["deleted"]
        assert (row["segments"] <= row["sequences"]) == bool(whole)
    assert {row["t_max"] for row in rows if row["segments"] > row["sequences"]} == {30, 9}


def test_lengths_spread_from_one_to_the_longest():
    for shape, longest in product(SHAPES, (1, 1_000, 10_000)):
        lengths = draw(shape, 2_000, longest, np.random.default_rng(0))
        assert (len(lengths), lengths.max()) == (2_000, longest)
        assert lengths.min() >= 1
        low, high = np.quantile(lengths, [0.05, 0.95])
        assert longest == 1 or high > 20 * low


def test_a_sequence_is_read_in_pieces_as_in_one():
    source = FeatureSequences([3, 7, 5])
    whole, classes = source.read(1, 0, 7)
    head, tail = source.read(1, 0, 4), source.read(1, 4, 3)
    assert torch.equal(whole, torch.cat([head[0], tail[0]]))
    assert classes == head[1] + tail[1] == [1] * 7
    assert not torch.equal(whole[:3], source.read(0, 0, 3)[0])


def test_bad_options_are_refused():
    for options, words in (({"rows": [4]}, "--rows 1"), ({"parts": [10_001]}, "--parts is")):
        with pytest.raises(InputError, match=words):
            run(**FULL | options)
