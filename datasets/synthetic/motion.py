"""Motion of the person and the objects.

Objects live in the nine cells of a 3 x 3 grid, sway within their cell and sometimes slide to a free
neighbouring one, so they never overlap. The person walks between stops in the columns of the grid,
on rows or between them. Positions are centres in units of the world (64 a side).

T frames, M objects.
"""

import numpy as np

from datasets.synthetic.world import WORLD_SIDE

CELL = WORLD_SIDE / 3
REST = 10
"""Mean number of frames between two slides of an object, and at a stop of the person."""
SLIDE = 4
"""Frames a slide takes."""
WALK = 5
"""Frames between two stops."""


def object_paths(sides_M2: np.ndarray, frames: int, rng: np.random.Generator) -> np.ndarray:
    """Draw centres of M <= 9 objects of given widths and heights, ``(T, M, 2)`` as x, y."""
    objects = len(sides_M2)
    cell_M = [divmod(int(cell), 3) for cell in rng.permutation(9)[:objects]]
    target_M = list(cell_M)
    step_M = [0] * objects
    moves_TM = rng.random((frames, objects)) < 1 / REST
    choice_TM = rng.random((frames, objects))
    cells_TM2 = np.empty((frames, objects, 2))
    for t in range(frames):
        for m in range(objects):
            if cell_M[m] == target_M[m] and moves_TM[t, m]:
                occupied = {*cell_M, *target_M}
                free = [cell for cell in _neighbours(cell_M[m]) if cell not in occupied]
                if free:
                    target_M[m], step_M[m] = free[int(choice_TM[t, m] * len(free))], 0
            (x, y), (to_x, to_y) = cell_M[m], target_M[m]
            share = 0.0
            if cell_M[m] != target_M[m]:
                step_M[m] += 1
                share = _ease(step_M[m] / SLIDE)
            cells_TM2[t, m] = x + share * (to_x - x), y + share * (to_y - y)
            if step_M[m] == SLIDE:
                cell_M[m] = target_M[m]
    slack_M2 = (CELL - sides_M2) / 2
    return (cells_TM2 + 0.5) * CELL + slack_M2 * _sway((frames, objects, 2), rng)


def person_path(side_2: np.ndarray, frames: int, rng: np.random.Generator) -> np.ndarray:
    """Draw centres of a person of the given width and height, ``(T, 2)`` as x, y."""
    path_T2 = np.empty((frames, 2))
    position_2, t = _stop(rng), 0
    while t < frames:
        rest_frames = int(rng.geometric(1 / REST))
        path_T2[t : t + rest_frames] = position_2
        t += rest_frames
        stop_2 = _stop(rng)
        for step in range(1, WALK + 1):
            if t < frames:
                path_T2[t] = position_2 + _ease(step / WALK) * (stop_2 - position_2)
                t += 1
        position_2 = stop_2
    path_T2 += _sway((frames, 2), rng)
    return np.clip(path_T2, side_2 / 2, WORLD_SIDE - side_2 / 2)


def _stop(rng: np.random.Generator) -> np.ndarray:
    """Draw a place to stop: a column of cells, and a row or the border of two rows."""
    return np.array([(rng.integers(3) + 0.5) * CELL, (rng.integers(5) / 2 + 0.5) * CELL])


def _neighbours(cell: tuple[int, int]) -> list[tuple[int, int]]:
    x, y = cell
    cells = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
    return [(a, b) for a, b in cells if 0 <= a < 3 and 0 <= b < 3]


def _ease(share: float) -> float:
    return share * share * (3 - 2 * share)


def _sway(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw slow sines in -1..1 along the first axis, each with its own period and phase."""
    rate = 2 * np.pi / rng.uniform(12, 30, size=shape[1:])
    phase = rng.uniform(0, 2 * np.pi, size=shape[1:])
    t = np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return np.sin(rate * t + phase)


def appearances(objects: int, frames: int, rng: np.random.Generator) -> np.ndarray:
    """Draw which objects are in sight, bool ``(T, M)``, for whiles; at least one always is."""
    leave_TM = rng.random((frames, objects)) < 1 / 25
    enter_TM = rng.random((frames, objects)) < 1 / 4
    visible_M = rng.random(objects) < 0.8
    visible_TM = np.empty((frames, objects), dtype=bool)
    last = int(rng.integers(objects))
    for t in range(frames):
        visible_M = np.where(visible_M, ~leave_TM[t], enter_TM[t])
        if not visible_M.any():
            visible_M[last] = True
        last = int(np.argmax(visible_M))
        visible_TM[t] = visible_M
    return visible_TM
