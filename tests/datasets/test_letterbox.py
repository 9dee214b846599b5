import numpy as np
import pytest
import torch

from bload import BlockLoader
from datasets.config import AugmentConfig
from datasets.letterbox import Letterbox
from tests.datasets.box_root import open_root, white_box, write_box_root

WIDE, TALL, SAME = (120, 68), (68, 120), (96, 64)
EVERY = {"flip": 0.5, "jitter": 0.2, "crop": 0.8, "shrink": 0.4}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    def moving(width, height, frames):
        return [(10 + 2 * t, 12 + t, width // 2 + 2 * t, height // 2 + t) for t in range(frames)]

    return write_box_root(
        tmp_path_factory.mktemp("boxes") / "root",
        {
            "wide.mp4": (WIDE, moving(*WIDE, 5)),
            "tall.mp4": (TALL, moving(*TALL, 7)),
            "same.mp4": (SAME, moving(*SAME, 4)),
        },
    )


@pytest.fixture(scope="module")
def source(root):
    return open_root(root, "train", (64, 96))


def batches(source, packer="bload_exact", **options):
    return list(BlockLoader(source, packer, batch_slots=24, seed=1, **options))


def shown(source, augment=None, epoch=0, seed=0, **options):
    """The network's view of each frame, without and with the border, and its target."""
    for batch in batches(source, **options):
        batch, extent_BT2 = Letterbox(source, augment, seed)(batch, epoch=epoch)
        places = batch.valid_BT.nonzero().tolist()
        for (b, t), target in zip(places, batch.targets, strict=True):
            frame_CHW = batch.inputs_BT[b, t]
            share_2 = torch.ones(2) if extent_BT2 is None else extent_BT2[b, t]
            width, height = (share_2 * torch.tensor(frame_CHW.shape[:0:-1])).round().int().tolist()
            yield frame_CHW[:, :height, :width], frame_CHW, target


def assert_box_is_where_the_target_says(picture_CHW, target):
    _, height, width = picture_CHW.shape
    scale = np.array([width / target.size_hw[1], height / target.size_hw[0]] * 2)
    found = white_box(picture_CHW)
    for box_4 in (target.person_box_4, target.object_boxes_M4[0]):
        np.testing.assert_allclose(found, box_4 * scale, atol=1.5)


def test_pictures_keep_their_proportions_and_boxes_are_where_their_things_are(source):
    native = {target.name: target for batch in batches(source) for target in batch.targets}
    sizes = set()
    for picture, frame, target in shown(source):
        np.testing.assert_array_equal(target.person_box_4, native[target.name].person_box_4)
        assert frame.shape == (3, 64, 96)
        height, width = picture.shape[1:]
        sizes.add((height, width))
        native_h, native_w = target.size_hw
        assert abs(height / native_h - width / native_w) < 0.5 / min(native_h, native_w)
        assert not frame[:, height:].any()
        assert not frame[:, :, width:].any()
        assert_box_is_where_the_target_says(picture, target)
    assert sizes == {(54, 96), (64, 36), (64, 96)}


def shares(target):
    """The person's box as shares of the picture."""
    return target.person_box_4 / np.array([*target.size_hw[::-1]] * 2)


def test_boxes_follow_every_augmentation(source):
    native = {target.name: target for batch in batches(source) for target in batch.targets}
    for changes in [EVERY, *({name: value} for name, value in EVERY.items())]:
        moved, filled = 0, []
        for epoch in range(4):
            for picture, frame, target in shown(source, AugmentConfig(**changes), epoch):
                assert_box_is_where_the_target_says(picture, target)
                moved += not np.allclose(shares(target), shares(native[target.name]))
                filled.append(max(np.divide(picture.shape, frame.shape)[1:]))
        assert (moved > 0) == bool({"flip", "crop"} & set(changes))
        assert 1 - changes.get("shrink", 0) - 0.02 <= min(filled)
        assert (min(filled) < 0.97) == ("shrink" in changes)


def test_pictures_of_the_right_size_come_through_untouched(small_root):
    source = open_root(small_root, "train", (64, 64))
    for batch in list(BlockLoader(source, "bload", batch_slots=64)):
        shown, extent_BT2 = Letterbox(source)(batch)
        assert extent_BT2 is None
        assert shown.inputs_BT is batch.inputs_BT


def test_padding_stays_black_and_full(source):
    for batch in batches(source, "naive"):
        shown, extent_BT2 = Letterbox(source, AugmentConfig(**EVERY))(batch)
        assert not shown.inputs_BT[~batch.valid_BT].any()
        assert (extent_BT2[~batch.valid_BT] == 1).all()


def test_what_a_video_looks_like_depends_on_neither_packing_nor_ranks(source):
    def looks(**options):
        return {
            target.name: (frame.numpy().tobytes(), target.person_box_4.tobytes())
            for _, frame, target in shown(source, AugmentConfig(**EVERY), 3, 4, **options)
        }

    whole = looks()
    assert len(whole) == 16
    assert looks(packer="naive") == whole
    assert looks(packer="bload", t_max=3, long="split") == whole  # in pieces
    assert looks(rank=0, world_size=2) | looks(rank=1, world_size=2) == whole
