"""An observer that reads pixels at the known boxes and remembers is always right."""

import numpy as np
import pytest

from datasets.synthetic import cues
from datasets.synthetic.cues import NO_CUE
from datasets.synthetic.painter import BLANK, CUE_COLOURS, cue_cells, paint
from datasets.synthetic.script import COUNTS, NO_OBJECT, write_scripts
from datasets.synthetic.world import World

BASE = len(CUE_COLOURS)
COLOURS = np.concatenate([CUE_COLOURS, [BLANK]]).astype(int)


def nearest(pixels_N3):
    """Index of the cue colour nearest to the mean of some pixels; the last is blank."""
    mean_3 = pixels_N3.reshape(-1, 3).mean(axis=0)
    return int(((COLOURS - mean_3) ** 2).sum(axis=1).argmin())


def read_cues(image_HW3, box_4):
    """Contacting and attention code that the cells of a box show."""
    first, second, third = (
        nearest(image_HW3[y1:y2, x1:x2]) for x1, y1, x2, y2 in cue_cells(box_4, image_HW3.shape[0])
    )
    contacting = NO_CUE if first == BASE else first + BASE * second
    return contacting, (NO_CUE if third == BASE else third)


@pytest.mark.parametrize("image_size", [32, 64, 100])
def test_labels_follow_from_the_pixels_of_this_and_earlier_frames(image_size):
    world = World(train_videos=12, test_videos=1, image_size=image_size, drop_rate=0.1)
    for script in write_scripts(world, "train"):
        objects = len(script.classes_M)
        contacting, attention = [cues.CONTACTING_NULL] * objects, [cues.ATTENTION_NULL] * objects
        for position in np.flatnonzero(script.kind_F != NO_OBJECT):
            image_HW3, t = paint(script, position), script.source_F[position]
            for m in np.flatnonzero(script.visible_TM[t]):
                codes = read_cues(image_HW3, script.object_boxes_TM4[t, m])
                if script.kind_F[position] != COUNTS:
                    assert codes == (NO_CUE, NO_CUE)  # as in all frames that are dropped
                    continue
                contacting[m] = contacting[m] if codes[0] == NO_CUE else codes[0]
                attention[m] = attention[m] if codes[1] == NO_CUE else codes[1]
                relations = script.relations(t, m)
                assert relations[0] == (attention[m],)
                assert relations[2] == cues.CONTACTING_CODES[contacting[m]]
