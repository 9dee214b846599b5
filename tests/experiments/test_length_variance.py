"""Every slot of every row is accounted for, and the shapes spread as they say."""

import json

import numpy as np
import pytest
import torch

from bload import PACKERS, InputError
from experiments.length_variance import run
from experiments.sequences import FeatureSequences, RecurrentClassifier
from experiments.shapes import SHAPES

LONGEST = (20, 60)
SEQUENCES = (40, 30)
PARTS = (2, 7)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("length_variance")
    assert run(
        folder, {"command": "typed"}, longest=LONGEST, sequences=SEQUENCES, rows=(4, 2), parts=PARTS
    )
    content = json.loads((folder / "length_variance.json").read_text())
    assert content["command"] == "typed"
    return content["rows"]


def test_every_loader_stands_in_every_spread(rows):
    seen = [(row["longest"], row["shape"], row["loader"]) for row in rows]
    for longest in LONGEST:
        for shape in SHAPES:
            for loader in PACKERS:
                split = len(PARTS) if (longest, loader) == (LONGEST[-1], "bload") else 0
                assert seen.count((longest, shape, loader)) == 1 + split


def test_slots_add_up(rows):
    for row in rows:
        processed = row["frames"] - row["deleted"] + row["padding"] + row["filler"]
        assert row["processed"] == processed
        assert row["processed"] == row["steps"] * row["batch_frames"]
        assert row["filler"] < row["batch_frames"]
        assert row["blocks"] * row["t_max"] + row["filler"] == row["processed"]
        assert 0 <= row["lower_bound_padding"] <= row["padding"]
        assert row["epoch_seconds"] > 0
        assert row["epoch_cpu_seconds"] > 0


def test_what_each_loader_does_to_the_data(rows):
    for row in rows:
        whole = row["loader"] in ("naive", "bload", "bload_exact")
        assert (row["deleted"] == 0) == whole
        if row["loader"] == "naive":
            assert row["padding"] == row["sequences"] * row["longest"] - row["frames"]
        if row["loader"] == "sampling":
            assert row["padding"] == 0
        if row["t_max"] == row["longest"]:
            assert row["segments"] == row["sequences"]


def test_blocks_shorter_than_the_longest_hold_pieces(rows):
    short = [row for row in rows if row["loader"] == "bload" and row["t_max"] < row["longest"]]
    assert {row["t_max"] for row in short} == {30, 9}
    assert all(row["segments"] > row["sequences"] for row in short)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("longest", [1, 1_000, 10_000])
def test_lengths_spread_from_one_to_the_longest(shape, longest):
    lengths = SHAPES[shape](2_000, longest, np.random.default_rng(0))
    assert lengths.shape == (2_000,)
    assert lengths.min() >= 1
    assert lengths.max() == longest
    if longest > 1:
        low, high = np.quantile(lengths, [0.05, 0.95])
        assert high > 20 * low


def test_log_uniform_lengths_are_equally_many_in_every_decade():
    lengths = SHAPES["log-uniform"](30_000, 999, np.random.default_rng(0))
    counts, _ = np.histogram(lengths, [1, 10, 100, 1_000])
    assert counts == pytest.approx([10_000] * 3, rel=0.03)


def test_a_sequence_is_read_in_pieces_as_in_one():
    source = FeatureSequences(np.array([3, 7, 5]))
    whole, classes = source.read(1, 0, 7)
    head, tail = source.read(1, 0, 4), source.read(1, 4, 3)
    assert torch.equal(whole, torch.cat([head[0], tail[0]]))
    assert classes == head[1] + tail[1] == [1] * 7
    assert not torch.equal(whole[:3], source.read(0, 0, 3)[0])


def test_the_state_goes_on_from_clip_to_clip_and_is_cleared_at_starts():
    torch.manual_seed(0)
    model = RecurrentClassifier(width=8)
    frames_BTF = torch.randn(1, 6, 16)
    start_BT = torch.tensor([[True, False, False, False, False, False]])
    whole, _ = model(frames_BTF, start_BT)
    head, state = model(frames_BTF[:, :4], start_BT[:, :4])
    tail, _ = model(frames_BTF[:, 4:], start_BT[:, 4:], state)
    torch.testing.assert_close(whole, torch.cat([head, tail], 1))
    cleared, _ = model(frames_BTF[:, 4:], torch.tensor([[True, False]]), state)
    assert not torch.allclose(cleared, tail)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rows": (4,)}, "experiment.longest has 2, sequences 2 and rows 1 entries"),
        ({"longest": (20, 0)}, "experiment.longest holds 0"),
        ({"parts": (61,)}, "experiment.parts is \\[61\\]"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, sentence):
    good = {"longest": LONGEST, "sequences": SEQUENCES, "rows": (4, 2), "parts": PARTS}
    with pytest.raises(InputError, match=sentence):
        run(tmp_path, {"command": "typed"}, **good | options)
    assert not list(tmp_path.iterdir())
