import numpy as np
import pytest

from datasets.annotations.vocabulary import RELATIONS, SPATIAL
from datasets.synthetic.spatial import spatial_relations

PERSON = (26, 20, 38, 44)  # centre (32, 32), 12 x 24
NAMES = RELATIONS[SPATIAL]


def around(x, y, width=16, height=16):
    return (x - width / 2, y - height / 2, x + width / 2, y + height / 2)


@pytest.mark.parametrize(
    ("box", "in_front", "held"),
    [
        (around(32, 10), True, {"above"}),
        (around(32, 54), False, {"beneath"}),
        (around(54, 32), True, {"on_the_side_of"}),
        (around(10, 32), False, {"on_the_side_of"}),
        (around(54, 10), True, {"above", "on_the_side_of"}),
        (around(10, 54), True, {"beneath", "on_the_side_of"}),
        (around(32, 43), True, {"in_front_of"}),
        (around(32, 43), False, {"behind"}),
        (around(33, 31), True, {"in_front_of", "in"}),
        (around(33, 31), False, {"behind", "in"}),
    ],
)
def test_the_rule_in_words(box, in_front, held):
    found = spatial_relations(np.array(PERSON), np.array(box), np.array(in_front))
    assert {NAMES[index] for index in np.flatnonzero(found)} == held


def test_every_layout_has_one_or_two_relations():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 48, size=(2, 2000, 2))
    person, box = np.concatenate([corners, corners + rng.uniform(8, 16, (2, 2000, 2))], axis=-1)
    counts = spatial_relations(person, box, rng.random(2000) < 0.5).sum(axis=-1)
    assert set(counts.tolist()) == {1, 2}
