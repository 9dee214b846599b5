"""Boxes that cannot be what they say: without an area, or outside the image.

F frames, M objects of all frames one after another.
"""

import numpy as np

from datasets.annotations.frame_table import FrameTable
from datasets.annotations.problems import Problems

SLACK = 1.0  # pixels that a box may stand out before it is remarked on


def check_boxes(table: FrameTable, problems: Problems, remarks: Problems) -> None:
    """Note boxes without an area or wholly outside as problems, partly outside as remarks."""
    frame_of_M = np.repeat(np.arange(len(table.names_F)), np.diff(table.object_offsets))
    every_F = np.arange(len(table.names_F))
    for what, boxes_N4, frame_of_N, first_row_F in (
        ("object", table.object_boxes_M4, frame_of_M, table.object_offsets),
        ("person", table.person_boxes_F4, every_F, every_F),
    ):
        high_N, wide_N = table.sizes_F2[frame_of_N].T
        x1_N, y1_N, x2_N, y2_N = boxes_N4.T
        flat_N = (x2_N <= x1_N) | (y2_N <= y1_N)
        away_N = (x1_N >= wide_N) | (y1_N >= high_N) | (x2_N <= 0) | (y2_N <= 0)
        beyond_N = (x2_N > wide_N + SLACK) | (y2_N > high_N + SLACK)
        out_N = np.minimum(x1_N, y1_N) < -SLACK
        out_N |= beyond_N
        for kind, chosen_N, notes in (
            (f"{what} boxes without an area", flat_N, problems),
            (f"{what} boxes outside the image", away_N & ~flat_N, problems),
            (f"{what} boxes partly outside the image", out_N & ~away_N & ~flat_N, remarks),
        ):
            for row in np.flatnonzero(chosen_N):
                frame = frame_of_N[row]
                corners = ", ".join(f"{number:g}" for number in boxes_N4[row])
                size = f"{wide_N[row]} x {high_N[row]}"
                which = f"box {row - first_row_F[frame] + 1}: {corners} in {size}"
                notes.add(kind, f"{table.names_F[frame]} ({which})")
