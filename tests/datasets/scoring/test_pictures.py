"""Pictures show what the measure counts, for the same videos every time."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from PIL import Image

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.targets import FrameTargets
from datasets.scoring.pictures import Album, draw_frame, spread
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import CONSTRAINTS, top_triplets, triplet_ranks

GREEN, RED, ORANGE = (10, 125, 50), (198, 40, 40), (179, 89, 0)


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


def test_the_triplets_shown_are_those_that_the_ranks_count():
    """A true triplet ranks before K exactly when one of the first K of the list finds it."""
    for seed in range(30):
        prediction, target = random_frame(seed)
        ranks_SG = triplet_ranks([prediction], [target])
        for (row, constraint), k in product(enumerate(CONSTRAINTS), (1, 8, 20, 100)):
            pair_K, relation_K, score_K, hit_K = top_triplets(prediction, target, constraint, k)
            assert (np.diff(score_K) <= 0).all()
            assert len(pair_K) == len(relation_K) <= k
            classes_K = prediction.object_classes_P[pair_K]
            named = set(zip(classes_K[hit_K].tolist(), relation_K[hit_K].tolist(), strict=True))
            row_N, relation_N = target.relations_G2[ranks_SG[row] < k].T
            classes_N = target.object_classes_M[row_N]
            assert named == set(zip(classes_N.tolist(), relation_N.tolist(), strict=True))


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
    target = replace(
        target,
        object_boxes_M4=target.object_boxes_M4[:2],
        object_classes_M=np.array([8, 11]),
        relations_G2=np.array([(0, 1), (0, 4), (0, 9), (1, 0), (1, 3), (1, 10)]),
    )
    hits = perfect(target)
    half = perfect(target)
    half.relation_scores_PR[1] = 1 - half.relation_scores_PR[1]  # all labels of one object wrong
    good, mixed, nothing = (
        colours(picture_of(prediction, target)) & {GREEN, RED}
        for prediction in (hits, half, FramePrediction.empty())
    )
    assert (good, mixed, nothing) == ({GREEN}, {GREEN, RED}, {RED})


def test_a_picture_of_any_frame_has_a_size_for_print():
    prediction, target = random_frame(2)
    for size_hw in ((270, 480), (480, 270)):
        picture = picture_of(prediction, replace(target, size_hw=size_hw))
        assert 1800 <= picture.width <= 3200
        assert 900 <= picture.height <= 1200


def test_labels_of_equal_boxes_do_not_hide_each_other():
    """Of two equal boxes with labels of equal length each label stays to be seen."""
    _, target = random_frame(0)
    box_M4 = np.tile(np.array([60, 60, 120, 120], np.float32), (2, 1))
    same = replace(
        target,
        person_box_4=np.array([150, 150, 200, 200], np.float32),
        object_boxes_M4=box_M4,
        object_classes_M=np.array([8, 8]),
        relations_G2=np.array([(0, 1)]),
    )
    one = replace(same, object_boxes_M4=box_M4[:1], object_classes_M=np.array([8]))
    orange = [
        sum(n for n, c in picture_of(FramePrediction.empty(), t).getcolors(1 << 24) if c == ORANGE)
        for t in (one, same)
    ]
    assert orange[1] > orange[0] + 1000


def test_the_same_videos_spread_over_the_split_are_drawn():
    assert spread(60, 3) == [10, 30, 50]
    assert spread(4, 4) == spread(4, 9) == [0, 1, 2, 3]
    assert spread(5, 0) == []
    with pytest.raises(InputError, match="pictures of -1 videos"):
        spread(5, -1)


def test_an_album_draws_a_gif_and_a_png_per_frame_of_the_videos_it_saw(small_root, tmp_path):
    source = ActionGenome(small_root, "test", (32, 32))
    source.lengths = np.minimum(source.lengths, 3)
    album = Album(source, 2)
    for video in (0, 3):
        targets = source.targets(video, 0, int(source.lengths[video]))
        album.keep(targets, [perfect(target) for target in targets])
    name = source.videos[3]
    assert album.draw(tmp_path) == [tmp_path / f"{name}.gif"]
    assert sorted(f"{name}/{p.name}" for p in (tmp_path / name).iterdir()) == [
        target.name for target in targets
    ]
    with Image.open(tmp_path / f"{name}.gif") as gif:
        assert gif.n_frames == len(targets)
        with Image.open(tmp_path / targets[0].name) as png:
            assert (gif.width, gif.height) == (png.width // 2, png.height // 2)
