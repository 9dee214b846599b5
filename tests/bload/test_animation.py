"""``bload draw --animate``: what is drawn at each frame, and the file."""

import sys
from itertools import chain

import numpy as np
import pytest

from bload import InputError, make_plan
from bload.__main__ import main
from bload.animate import FRAME_MS, HOLD_MS, animate_plan
from bload.scene import GOOD, PITCH, TOP, WASTED, WHITE, Scene

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def plan():
    return make_plan([7, 3, 5, 2, 6, 4], "bload_exact", 10)


@pytest.fixture(scope="module")
def scene(plan):
    return Scene(plan, 2, "BLoad")


def count(picture, colour):
    return int((np.asarray(picture) == colour).all(axis=2).sum())


def test_both_sides_hold_every_sequence_once_and_the_same_falls_at_the_same_time(plan, scene):
    alone, packed = (side.bars for side in scene.sides)
    assert sorted(bar.length for bar in alone) == sorted(plan.length.tolist())
    assert [bar.row for bar in alone] == [5, 4, 3, 2, 1, 0], "each in a row of its own, bottom up"
    for one, other in zip(alone, packed, strict=True):
        assert (one.length, one.colour, one.lands) == (other.length, other.colour, other.lands)
    slots = [plan.block(block).starts.tolist() for block in reversed(range(plan.blocks))]
    assert [bar.slot for bar in packed] == list(chain(*slots))


def test_counters_end_at_the_padding_of_both_sides(plan, scene):
    naive, packed = scene.sides
    for side, padding in [(naive, 6 * 10 - 27), (packed, plan.padding)]:
        counts = [
            sum(scene.padded(side, row, frame) for row in range(side.rows))
            for frame in range(scene.frames)
        ]
        assert counts == sorted(counts)
        assert (counts[0], counts[scene.trains], counts[-1]) == (0, padding, padding)


def test_ranks_train_in_step_and_the_padded_side_takes_longer(scene):
    naive, packed = scene.sides
    assert (scene.steps(naive), scene.steps(packed)) == (3, 2)
    first = [scene.trained(naive, row, scene.trains + 5) for row in range(4)]
    assert first[0] == first[1] > first[2] == first[3] == 0
    last = [scene.trained(side, side.rows - 1, scene.frames - 1) for side in scene.sides]
    assert last == [10, 10]
    assert scene.trained(naive, 5, scene.frames - 20) < 10


def test_computed_padding_is_drawn_and_starts_flash(scene):
    before, after = (scene.draw(frame) for frame in (scene.trains - 1, scene.frames - 1))
    assert count(after, WASTED) > 4 * count(before, WASTED), "the counter has this colour too"
    assert count(after, GOOD) > count(before, GOOD), "the outcome"
    landed = scene.sides[1].bars[0].lands
    box = (0, TOP - PITCH, before.width, TOP + 7 * PITCH)
    flash, faded = (scene.draw(frame).crop(box) for frame in (landed, scene.trains - 1))
    assert count(flash, WHITE) > count(faded, WHITE) / 6, "one start shines wider than six"


def test_the_file_loops_and_holds_its_last_frame(tmp_path, capsys, monkeypatch):
    plan = make_plan([2, 1, 3], "bload", 4)
    scene = Scene(plan, 2, "BLoad")
    path = animate_plan(plan, tmp_path / "blocks.gif")
    with Image.open(path) as picture:
        assert picture.info["loop"] == 0
        times = []
        for frame in range(picture.n_frames):
            picture.seek(frame)
            times.append(picture.info["duration"])
        assert sum(times) == FRAME_MS * (scene.frames - 1) + HOLD_MS
        assert np.array_equal(picture.convert("RGB").getpixel((0, 0)), (22, 27, 34))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InputError, match=r"blocks.png.*\.gif"):
        animate_plan(plan, tmp_path / "blocks.png")
    with pytest.raises(InputError, match=r"61 .* 60 "):
        animate_plan(make_plan([2] * 61, "bload", 10), tmp_path / "many.gif")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "PIL", None)
        with pytest.raises(InputError, match="pip install pillow"):
            animate_plan(plan, tmp_path / "blocks.gif")
    wrong = ["--out /dev/null/a.gif", "--loaders mix", "--loaders bload,naive", "--t-max 2"]
    for options in wrong:
        assert main(["draw", "--animate", "--rows", "3", *options.split()]) == 2, options
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), err
