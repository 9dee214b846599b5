"""Pictures show what the measure counts, for the same videos every time."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from datasets.action_genome import ActionGenome
from datasets.scoring.prediction import FramePrediction
from tests.datasets.scoring import drawing
from training.report.frames import Album, draw_strip

GREEN, RED = (10, 125, 50), (198, 40, 40)


def perfect(target):
    """One pair for each object, sure of its labels; every object has one label of each group."""
    M = len(target.object_classes_M)
    return FramePrediction(
        np.tile(target.person_box_4, (M, 1)),
        target.object_boxes_M4,
        target.object_classes_M,
        np.ones(M, np.float32),
        np.ones(M, np.float32),
        target.relations_MR().astype(np.float32),
    )


@pytest.fixture
def target():
    """A frame whose two objects have one label of each group."""
    _, target = drawing.draw_frame(np.random.default_rng(0), "v.mp4/000001.png", 12)
    return replace(
        target,
        object_boxes_M4=target.object_boxes_M4[:2],
        object_classes_M=np.array([8, 11]),
        relations_G2=np.array([(0, 1), (0, 4), (0, 9), (1, 0), (1, 3), (1, 10)]),
    )


def colours(target, *predictions):
    """Those of hits and misses in each column of a picture."""
    image = Image.new("RGB", (480, 400))
    picture = draw_strip([(image, target, prediction) for prediction in predictions])
    width = picture.width // len(predictions)
    columns = [
        picture.crop((width * column, 0, width * (column + 1), picture.height))
        for column in range(len(predictions))
    ]
    seen = [{colour for _, colour in column.getcolors(maxcolors=1 << 24)} for column in columns]
    return [{GREEN, RED} & colours for colours in seen]


def test_hits_are_green_and_misses_red_in_the_column_of_their_frame(target):
    half = perfect(target)
    half.relation_scores_PR[1] = 1 - half.relation_scores_PR[1]  # all labels of one object wrong
    seen = colours(target, perfect(target), half, drawing.cup_frame("", [0], [])[0])
    assert seen == [{GREEN}, {GREEN, RED}, {RED}]


def test_an_album_draws_the_videos_it_saw(data_root, tmp_path):
    source = ActionGenome(data_root, "test", (32, 32))
    album = Album(source, 2)
    targets = source.targets(3, 0, int(source.lengths[3]))
    album.keep(targets, [perfect(target) for target in targets])
    album.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{source.videos[3]}.png"]
