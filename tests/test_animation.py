"""The animation at the head of the README: its counters, and a file that loops."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from bload import make_plan

Image = pytest.importorskip("PIL.Image")
SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "animation.py"))


def test_counters_end_at_the_padding_of_both_sides_and_the_file_loops(tmp_path):
    plan = make_plan([7, 3, 5, 2, 6, 4], "bload_exact", 10)
    scene = SCRIPT["Scene"](plan, 2, "BLoad")
    naive, packed = scene.sides
    for side, padding in [(naive, 6 * 10 - 27), (packed, plan.padding)]:
        counts = [
            sum(scene.padded(side, row, frame) for row in range(side.rows))
            for frame in range(scene.frames)
        ]
        assert counts == sorted(counts)
        assert (counts[0], counts[scene.trains], counts[-1]) == (0, padding, padding)
    assert (scene.steps(naive), scene.steps(packed)) == (3, 2)
    SCRIPT["animate"](plan, tmp_path / "blocks.gif")
    with Image.open(tmp_path / "blocks.gif") as picture:
        assert picture.info["loop"] == 0
        assert picture.info["duration"] >= SCRIPT["HOLD_MS"]
        end = np.asarray(picture.convert("RGB"))
    assert (end == SCRIPT["WASTED"]).all(2).sum() > 1000, "padding that was computed"
