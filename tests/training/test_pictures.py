"""Pictures show what the measure counts, for the same videos every time."""

import numpy as np

from datasets.action_genome import ActionGenome
from datasets.scoring.prediction import FramePrediction
from training.report.frames import Album


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


def test_an_album_draws_the_videos_it_saw(data_root, tmp_path):
    source = ActionGenome(data_root, "test", (32, 32))
    album = Album(source, 2)
    targets = source.videos[3].frames
    album.keep(targets, [perfect(target) for target in targets])
    album.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{source.names[3]}.png"]
