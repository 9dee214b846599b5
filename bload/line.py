"""Blocks cut from a random order of pieces: a block ends before the piece that does not fit.

    |a a a a|b b b|. . .|d d d ...      d does not fit any more, so the next block begins with it

The order is cut into lines that are walked at the same time, one block of every line per step.
"""

import numpy as np

STEPS = 48
"""Full blocks that a line is long: about as many steps, whatever the number of pieces."""


def cut_line(lengths: np.ndarray, t_max: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first piece of every block and the one after its last, ``(blocks,)`` each.

    Args:
        lengths: of the pieces in their random order, ``(pieces,)``, each 1 to `t_max`.
        t_max: slots in a block.

    The block that the end of a line cuts short is left out: its pieces are in no block.
    """
    end_P = np.cumsum(lengths, dtype=np.int64)
    lines = 1 + int(end_P[-1]) // (t_max * STEPS)
    stop_L = len(lengths) * np.arange(1, lines + 1) // lines
    at_L = np.concatenate([[0], stop_L[:-1]])
    found = []
    while len(at_L):
        after_L = np.searchsorted(end_P, end_P[at_L] - lengths[at_L] + t_max, "right")
        whole = after_L < stop_L
        found.append((at_L[whole], after_L[whole]))
        at_L, stop_L = after_L[whole], stop_L[whole]
    first, after = (np.concatenate(column) for column in zip(*found, strict=True))
    return first, after
