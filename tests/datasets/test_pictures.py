"""Pictures show what the measure counts, for the same videos every time."""

import numpy as np
import pytest
from PIL import Image

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.targets import FrameTargets
from datasets.scoring.pictures import Album, draw_frame, spread
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import CONSTRAINTS, top_triplets, triplet_ranks

GREEN, RED = (10, 125, 50), (198, 40, 40)


def random_frame(seed, pairs=12):
    """Nine objects of a few classes and pairs near some of them, with tied scores."""
    rng = np.random.default_rng(seed)
    corners_M2 = rng.random((9, 2)) * 180
    boxes_M4 = np.concatenate([corners_M2, corners_M2 + 20 + rng.random((9, 2)) * 40], 1)
    boxes_M4 = boxes_M4.astype(np.float32)
    person_4 = np.array([90, 20, 150, 200], np.float32)
    classes_M = rng.integers(2, 6, 9)
    labels_G2 = np.stack([rng.integers(0, 9, 20), rng.integers(0, 26, 20)], 1)
    target = FrameTargets("v.mp4/000001.png", (240, 240), person_4, boxes_M4, classes_M, labels_G2)
    row_P = rng.integers(0, 9, pairs)
    prediction = FramePrediction(
        np.tile(person_4, (pairs, 1)) + rng.integers(0, 2, (pairs, 1)).astype(np.float32) * 80,
        boxes_M4[row_P] + 4,
        classes_M[row_P],
        np.ones(pairs, np.float32),
        rng.integers(1, 4, pairs).astype(np.float32) / 4,
        rng.integers(0, 5, (pairs, 26)).astype(np.float32) / 4,
    )
    return prediction, target


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("k", [1, 8, 20, 100])
def test_the_triplets_shown_are_those_that_the_ranks_count(seed, k):
    """A true triplet ranks before K exactly when one of the first K of the list finds it."""
    prediction, target = random_frame(seed)
    ranks_SG = triplet_ranks([prediction], [target])
    for row, constraint in enumerate(CONSTRAINTS):
        pair_K, relation_K, score_K, hit_K = top_triplets(prediction, target, constraint, k)
        assert (np.diff(score_K) <= 0).all()
        assert len(pair_K) == len(relation_K) <= k
        found_G = ranks_SG[row] < k
        assert hit_K.any() == found_G.any()
        named = {
            (int(prediction.object_classes_P[p]), int(r))
            for p, r in zip(pair_K[hit_K], relation_K[hit_K], strict=True)
        }
        found = {(int(target.object_classes_M[m]), int(r)) for m, r in target.relations_G2[found_G]}
        assert named == found


def test_with_constraint_lists_three_triplets_a_pair():
    prediction, target = random_frame(0, pairs=2)
    assert len(top_triplets(prediction, target, "with", 20)[0]) == 6


def colours(picture):
    return {colour for _, colour in picture.getcolors(maxcolors=1 << 24)}


def picture_of(prediction, target):
    image = Image.new("RGB", target.size_hw[::-1], "black")
    return draw_frame(image, target, prediction, "title")


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


def test_hits_are_green_and_misses_red():
    _, target = random_frame(0)
    target = FrameTargets(
        target.name,
        target.size_hw,
        target.person_box_4,
        target.object_boxes_M4[:2],
        np.array([8, 11]),
        np.array([(0, 1), (0, 4), (0, 9), (1, 0), (1, 3), (1, 10)]),
    )
    hits = perfect(target)
    half = perfect(target)
    half.relation_scores_PR[1] = 1 - half.relation_scores_PR[1]  # all labels of one object wrong
    good, mixed, nothing = (
        colours(picture_of(prediction, target)) & {GREEN, RED}
        for prediction in (hits, half, FramePrediction.empty())
    )
    assert (good, mixed, nothing) == ({GREEN}, {GREEN, RED}, {RED})


@pytest.mark.parametrize("size_hw", [(270, 480), (480, 270), (64, 64), (1080, 1920), (240, 320)])
def test_a_picture_of_any_frame_has_a_size_for_print(size_hw):
    prediction, target = random_frame(2)
    target = FrameTargets(
        target.name,
        size_hw,
        target.person_box_4,
        target.object_boxes_M4,
        target.object_classes_M,
        target.relations_G2,
    )
    picture = picture_of(prediction, target)
    assert 1800 <= picture.width <= 3200
    assert 1000 <= picture.height <= 1200


def test_the_same_videos_spread_over_the_split_are_drawn():
    assert spread(60, 3) == [10, 30, 50]
    assert spread(4, 4) == spread(4, 9) == [0, 1, 2, 3]
    assert spread(5, 0) == []
    with pytest.raises(InputError, match="pictures of -1 videos"):
        spread(5, -1)


def test_an_album_draws_a_gif_and_a_png_a_frame_of_the_videos_it_saw(small_root, tmp_path):
    source = ActionGenome(small_root, "test", (32, 32))
    album = Album(source, 2)
    wanted = np.argmin(source.lengths[[1, 3]]) * 2 + 1
    for video in (0, int(wanted)):
        targets = source.targets(video, 0, int(source.lengths[video]))
        album.keep(targets, [perfect(target) for target in targets])
    name, length = source.videos[wanted], int(source.lengths[wanted])
    assert album.draw(tmp_path) == [tmp_path / f"{name}.gif"]
    assert sorted(p.name for p in (tmp_path / name).iterdir()) == [
        target.name.partition("/")[2] for target in targets
    ]
    with Image.open(tmp_path / f"{name}.gif") as gif:
        assert gif.n_frames == length
        with Image.open(tmp_path / targets[0].name) as png:
            assert (gif.width, gif.height) == (png.width // 2, png.height // 2)
