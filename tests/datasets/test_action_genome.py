import pickle

import numpy as np
import pytest
import torch

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.synthetic import write_scripts
from tests.datasets.box_root import write_box_root


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_synthetic_root_reads_back_as_its_scripts_say(small_root, small_world, split):
    source = ActionGenome(small_root, split, (64, 64))
    scripts = write_scripts(small_world, split)
    assert source.videos == tuple(script.name for script in scripts)
    assert source.lengths.tolist() == [script.frames for script in scripts]
    assert source.lengths.dtype == np.int64
    for video, script in enumerate(scripts):
        expected = script.targets()
        for found, wanted in zip(source.targets(video, 0, len(expected)), expected, strict=True):
            assert (found.name, found.size_hw) == (wanted.name, wanted.size_hw)
            for field in ("person_box_4", "object_boxes_M4", "object_classes_M", "relations_G2"):
                np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field))
                assert getattr(found, field).dtype == getattr(wanted, field).dtype


def test_dropped_frames_are_there_to_be_dropped(small_root):
    counts = ActionGenome(small_root, "train", (64, 64)).counts
    assert counts.without_visible_object > 0
    assert counts.without_person > 0
    assert counts.frames_in_split - counts.frames == (
        counts.without_visible_object + counts.without_person
    )


def test_a_run_of_frames_is_the_same_as_the_slice_of_the_whole_video(small_root):
    source = ActionGenome(small_root, "train", (64, 64))
    video = int(source.lengths.argmax())
    whole_TCHW, targets = source.read(video, 0, int(source.lengths[video]))
    part_TCHW, part_targets = source.read(video, 3, 4)
    assert part_TCHW.dtype == torch.uint8
    assert torch.equal(part_TCHW, whole_TCHW[3:7])
    assert [t.name for t in part_targets] == [t.name for t in targets[3:7]]


def test_frames_are_read_as_stored_and_resized_later(small_root):
    source = ActionGenome(small_root, "test", (32, 48))
    frames_TCHW, targets = source.read(0, 0, 2)
    assert frames_TCHW.shape == (2, 3, 64, 64)
    assert targets[0].size_hw == (64, 64)
    assert torch.equal(source.picture(targets[1]), frames_TCHW[1])


def test_the_reach_of_a_video_is_the_box_around_all_its_boxes(small_root):
    source = ActionGenome(small_root, "train", (64, 64))
    for video, length in enumerate(source.lengths.tolist()):
        boxes = [
            box
            for target in source.targets(video, 0, length)
            for box in (target.person_box_4, *target.object_boxes_M4)
        ]
        low, high = np.min(boxes, 0)[:2], np.max(boxes, 0)[2:]
        np.testing.assert_allclose(source.reach(video), [*low / 64, *high / 64])


def test_a_video_whose_frames_differ_in_size_is_refused(tmp_path):
    root = write_box_root(tmp_path / "root", {"A.mp4": ((40, 24), [(1, 1, 9, 9)] * 4)})
    path = root / "annotations" / "person_bbox.pkl"
    person_of = pickle.loads(path.read_bytes())
    person_of["A.mp4/000007.png"]["bbox_size"] = (24, 40)
    path.write_bytes(pickle.dumps(person_of))
    with pytest.raises(InputError, match=r"A.mp4/000007.png in 24 x 40 instead of 40 x 24"):
        ActionGenome(root, "train", (24, 40))


def test_a_source_is_small_to_pickle_and_comes_back_equal(small_root):
    source = ActionGenome(small_root, "train", (64, 64))
    data = pickle.dumps(source)
    assert len(data) < 1000 * source.lengths.sum()
    again = pickle.loads(data)
    assert torch.equal(again.read(1, 0, 3)[0], source.read(1, 0, 3)[0])


def test_frames_beyond_a_video_are_refused(small_root):
    source = ActionGenome(small_root, "train", (64, 64))
    with pytest.raises(IndexError, match=r"'train00000.mp4' has"):
        source.read(0, 0, int(source.lengths[0]) + 1)


def test_an_impossible_image_size_is_refused(small_root):
    with pytest.raises(InputError, match="image size"):
        ActionGenome(small_root, "train", (0, 64))
