from dataclasses import asdict
from unittest import mock

import numpy as np
import torch

from datasets.annotations.targets import FrameTargets
from datasets.augmentation import Augmentation

SOME = Augmentation(flip=0.5, jitter=0.3, crop=1.0, shrink=0.3, seed=7)


def target(number=1, box=(20.0, 10.0, 50.0, 30.0)):
    return FrameTargets(
        name=f"A.mp4/{number:06d}.png",
        size_hw=(40, 60),
        person_box_4=np.array(box, np.float32),
        object_boxes_M4=np.array([box, (22, 12, 30, 20)], np.float32),
        object_classes_M=np.array([5, 9]),
        relations_G2=np.array([[0, 0], [1, 4]]),
    )


def reach(box):
    return np.array(box) / [60, 40, 60, 40]


FRAMES = torch.randint(0, 256, (6, 3, 40, 60), dtype=torch.uint8)
TARGETS = [target(number) for number in range(6)]
REACH = reach((20, 10, 50, 30))


def test_the_draw_is_a_function_of_seed_epoch_and_video():
    def draw(seed=7, video=2, epoch=5):
        changed = Augmentation(**asdict(SOME) | {"seed": seed})
        frames, _, share = changed(FRAMES, TARGETS, REACH, video, epoch)
        return share, tuple(frames.shape), frames.sum().item()

    assert draw() == draw()
    assert len({draw(), draw(seed=8), draw(video=3), draw(epoch=6), draw(video=5, epoch=2)}) == 5


def test_drawing_leaves_the_global_random_states_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with mock.patch.object(torch.cuda, "manual_seed_all") as seed_gpus:
        SOME(FRAMES, TARGETS, REACH, 0, 0)
    assert torch.equal(torch.rand(3), expected)
    seed_gpus.assert_not_called()


def test_nothing_annotated_is_ever_cut():
    sizes = set()
    for video in range(120):
        frames, targets, _ = SOME(FRAMES, TARGETS, REACH, video, 0)
        height, width = frames.shape[2:]
        sizes.add((height, width))
        for before, one in zip(TARGETS, targets, strict=True):
            assert (one.name, one.size_hw) == (before.name, (height, width))
            np.testing.assert_array_equal(one.relations_G2, before.relations_G2)
            np.testing.assert_array_equal(one.object_classes_M, before.object_classes_M)
            for box in (one.person_box_4, *one.object_boxes_M4):
                assert box[0] >= 0 <= box[1]
                assert box[2] <= width
                assert box[3] <= height
                assert (box[2:] > box[:2]).all()
    assert len(sizes) > 50
    assert min(width for _, width in sizes) < 40  # it does cut


def test_boxes_at_and_beyond_the_border_leave_a_picture_and_keep_their_size():
    for box in ((0, 0, 60, 40), (-5, -3, 70, 44), (60, 40, 60, 40), (9, 9, 9, 9)):
        for video in range(25):
            frames, _, _ = SOME(FRAMES, [target(box=box)] * 6, reach(box), video, 0)
            assert min(frames.shape) >= 1
    box = (-5, -3, 70, 44)
    changed = Augmentation(flip=1.0)
    _, targets, _ = changed(FRAMES, [target(box=box)] * 6, reach(box), 0, 0)
    assert targets[0].person_box_4.tolist() == [-10, -3, 65, 44]
    assert targets[0].object_boxes_M4[1].tolist() == [30, 12, 38, 20]
