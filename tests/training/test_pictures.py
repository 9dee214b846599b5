"""Pictures show what the measure counts, for the same videos every time."""

from dataclasses import fields, replace

import numpy as np
from PIL import Image

from datasets.action_genome import ActionGenome
from datasets.annotations.vocabulary import OBJECTS
from datasets.scoring.prediction import FramePrediction
from tests.datasets.scoring import drawing
from training.report.frames import Album, _pair_boxes, draw_frame, draw_strip, spread

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


def two_objects():
    """A frame whose objects have one label of each group."""
    _, target = drawing.draw_frame(np.random.default_rng(0), "v.mp4/000001.png", 12)
    return replace(
        target,
        object_boxes_M4=target.object_boxes_M4[:2],
        object_classes_M=np.array([8, 11]),
        relations_G2=np.array([(0, 1), (0, 4), (0, 9), (1, 0), (1, 3), (1, 10)]),
    )


def test_hits_are_green_and_misses_red():
    target = two_objects()
    hits, half = perfect(target), perfect(target)
    half.relation_scores_PR[1] = 1 - half.relation_scores_PR[1]  # all labels of one object wrong
    seen = []
    for prediction in (hits, half, FramePrediction.empty()):
        picture = draw_frame(Image.new("RGB", (480, 400)), target, prediction)
        colours = {colour for _, colour in picture.getcolors(maxcolors=1 << 24)}
        seen.append({GREEN, RED} & colours)
    assert seen == [{GREEN}, {GREEN, RED}, {RED}]


def joined(one, other):
    """The pairs of two predictions in one."""
    names = [field.name for field in fields(FramePrediction)]
    return FramePrediction(
        **{name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names}
    )


def test_a_pair_that_scores_next_to_nothing_is_not_drawn():
    target = two_objects()
    for share, drawn in ((0.2, True), (0.05, False), (0.0, False)):
        wrong = replace(perfect(target), object_classes_P=np.array([20, 21]))
        wrong.object_scores_P[:] = share
        picture = draw_frame(Image.new("RGB", (480, 400)), target, joined(perfect(target), wrong))
        colours = {colour for _, colour in picture.getcolors(maxcolors=1 << 24)}
        assert (RED in colours) == drawn


def test_boxes_on_one_another_are_drawn_once_with_the_numbers_of_both():
    target = two_objects()
    twice = joined(perfect(target), perfect(target))
    boxes = _pair_boxes(twice, {0: 1, 1: 2, 2: 3, 3: 4}, {2})
    one, other = (OBJECTS[number] for number in target.object_classes_M)
    labels = [f"2, 4 {other} 1.00", f"1, 3 {one} 1.00", "1, 2, 3, 4 person"]
    assert [label for label, _, _ in boxes] == labels
    assert [colour for _, colour, _ in boxes][:2] == ["#c62828", "#0a7d32"]


def test_frames_side_by_side_are_a_column_each_with_what_is_true_and_predicted():
    target = two_objects()
    frames = [
        (Image.new("RGB", (480, 400)), target, prediction)
        for prediction in (perfect(target), FramePrediction.empty())
    ]
    pictures = [draw_strip(*zip(*some, strict=True)) for some in (frames[:1], frames)]
    assert pictures[1].size == (2 * pictures[0].width, pictures[0].height)
    middle = pictures[0].width
    halves = [
        pictures[1].crop((left, 0, left + middle, pictures[1].height)) for left in (0, middle)
    ]
    seen = [{colour for _, colour in half.getcolors(maxcolors=1 << 24)} for half in halves]
    assert [{GREEN, RED} & colours for colours in seen] == [{GREEN}, {RED}]


def test_the_same_videos_spread_over_the_split_are_drawn():
    assert spread(60, 3) == [10, 30, 50]
    assert spread(4, 4) == spread(4, 9) == [0, 1, 2, 3]
    assert spread(5, 0) == []


def test_an_album_draws_a_gif_and_a_png_per_frame_of_the_videos_it_saw(data_root, tmp_path):
    source = ActionGenome(data_root, "test", (32, 32))
    source.lengths = np.minimum(source.lengths, 2)
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
            assert (gif.width, gif.height) == ((png.width + 1) // 2, (png.height + 1) // 2)
