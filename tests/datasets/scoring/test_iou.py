"""Both IoU conventions, by hand."""

import numpy as np
import pytest

from datasets.scoring.iou import overlaps


def test_overlap_by_hand():
    for box, other, inclusive, continuous in (
        # The same box.
        ((10, 20, 30, 40), (10, 20, 30, 40), 1.0, 1.0),
        # Sides 3 and shift 1: 6 / (9 + 9 - 6). Sides 2 and shift 1: 2 / (4 + 4 - 2).
        ((0, 0, 2, 2), (1, 0, 3, 2), 6 / 12, 2 / 6),
        # Half a pixel apart: inclusive boxes still share half a column.
        ((0, 0, 2, 2), (2.5, 0, 4.5, 2), 1.5 / 16.5, 0.0),
        # Apart on both axes: two negative sides must not make a positive area.
        ((0, 0, 2, 2), (50, 50, 60, 60), 0.0, 0.0),
    ):
        box_4, other_4 = np.array(box, np.float32), np.array(other, np.float32)
        assert overlaps(box_4, other_4) == pytest.approx(inclusive, abs=1e-12)
        assert overlaps(other_4, box_4, "inclusive") == pytest.approx(inclusive, abs=1e-12)
        assert overlaps(box_4, other_4, "continuous") == pytest.approx(continuous, abs=1e-12)
