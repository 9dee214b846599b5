"""Spatial relations of person and object: a rule on two boxes and on which is in front.

Offsets are measured between centres, in halves of the summed sides: 0 is concentric, 1 is edge
to edge. The rule looks at this frame alone.
"""

import numpy as np

from datasets.annotations.vocabulary import RELATIONS, SPATIAL

BESIDE = 0.75
"""From this offset on, boxes count as apart along an axis."""
WITHIN = 0.4
"""Below this offset along both axes, the object counts as in."""

_FIRST = SPATIAL.start
ABOVE, BENEATH, IN_FRONT, BEHIND, SIDE, IN = (
    RELATIONS.index(name) - _FIRST
    for name in ("above", "beneath", "in_front_of", "behind", "on_the_side_of", "in")
)


def spatial_relations(
    person_4: np.ndarray, object_4: np.ndarray, in_front: np.ndarray
) -> np.ndarray:
    """Return which of the six spatial relations hold, one or two, bool ``(..., 6)``.

    Boxes are xyxy ``(..., 4)`` in any unit; `in_front`, bool ``(...)``, is True where the object is
    drawn over the person. Apart along x: on_the_side_of. Apart along y: above or beneath. Apart
    along neither: in_front_of or behind, and with nearly the same centre also in.
    """
    sums = (object_4[..., 2:] - object_4[..., :2]) + (person_4[..., 2:] - person_4[..., :2])
    # Twice the distance of the centres, over the sum of the sides; y grows downwards.
    offsets = (object_4[..., :2] + object_4[..., 2:] - person_4[..., :2] - person_4[..., 2:]) / sums
    x, y = offsets[..., 0], offsets[..., 1]
    apart_x, apart_y = np.abs(x) >= BESIDE, np.abs(y) >= BESIDE
    is_close = ~apart_x & ~apart_y
    has_relation = np.zeros((*np.shape(x), 6), dtype=bool)
    has_relation[..., SIDE] = apart_x
    has_relation[..., ABOVE] = apart_y & (y < 0)
    has_relation[..., BENEATH] = apart_y & (y > 0)
    has_relation[..., IN_FRONT] = is_close & in_front
    has_relation[..., BEHIND] = is_close & ~in_front
    has_relation[..., IN] = (np.abs(x) < WITHIN) & (np.abs(y) < WITHIN)
    return has_relation
