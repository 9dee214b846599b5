"""From configs to sources, and what they hold."""

import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.read import KNOBS_FILE, PERSONS_FILE
from datasets.build import saved_config
from datasets.config import SyntheticConfig
from datasets.source import VideoSource
from datasets.synthetic.script import write_scripts
from datasets.synthetic.world import SPLITS
from tests.datasets.annotations.making import edit
from tests.datasets.box_root import open_root, write_box_root
from tests.datasets.conftest import SMALL


def test_a_synthetic_root_reads_back_as_its_scripts_say(small_root, small_world):
    for split in SPLITS:
        source = open_root(small_root, split, (64, 64))
        scripts = write_scripts(small_world, split)
        assert source.names == tuple(script.name for script in scripts)
        assert source.lengths.tolist() == [script.frames for script in scripts]
        assert source.lengths.dtype == np.int64
        for video, script in enumerate(scripts):
            expected = script.targets()
            found = source.videos[video].frames
            numbers = [int(target.name[-10:-4]) for target in expected]
            assert [target.gap for target in found] == [0, *np.diff(numbers)]
            for one, wanted in zip(found, expected, strict=True):
                assert (one.name, one.size_hw) == (wanted.name, wanted.size_hw)
                for name in ("person_box_4", "object_boxes_M4", "object_classes_M", "relations_G2"):
                    np.testing.assert_array_equal(getattr(one, name), getattr(wanted, name))
                    assert getattr(one, name).dtype == getattr(wanted, name).dtype


def test_a_share_of_the_training_videos_is_set_apart_and_always_the_same(small_root, tmp_path):
    root = shutil.copytree(small_root, tmp_path / "real", ignore=lambda *_: [KNOBS_FILE])
    whole, train, apart, again = (
        open_root(root, split, (64, 64), validation=share).names
        for split, share in (("train", 0), ("train", 0.25), *2 * [("validation", 0.25)])
    )
    assert (len(train), len(apart)) == (6, 2)
    assert sorted(train + apart) == [*whole]
    assert again == apart


def test_a_video_that_cannot_be_is_refused(small_root, tmp_path):
    root = write_box_root(tmp_path / "root", {"A.mp4": ((40, 24), [(1, 1, 9, 9)] * 4)})
    edit(root, lambda value: value["A.mp4/000007.png"].update(bbox_size=(24, 40)), PERSONS_FILE)
    with pytest.raises(InputError, match=r"A.mp4/000007.png in 24 x 40 instead of 40 x 24"):
        open_root(root, "train", (24, 40))
    video = open_root(small_root, "test", (64, 64)).videos[0]
    frame, objects = video.frames[1], len(video.frames[1].object_classes_M)
    for changes, words in (
        ({"object_classes_M": frame.object_classes_M * 0}, r"an object class outside 1\.\.36"),
        ({"object_classes_M": frame.object_classes_M + 36}, "an object class"),
        ({"relations_G2": np.array([[objects, 0]])}, "a relation of no object"),
        ({"relations_G2": np.array([[0, 26]])}, "a relation of no class"),
        ({"person_box_4": frame.person_box_4 + np.inf}, "a box that is not finite"),
    ):
        wrong = replace(video, frames=(video.frames[0], replace(frame, **changes)))
        with pytest.raises(InputError, match=f"^{video.name} has {words}"):
            VideoSource(small_root, "test", [wrong], (64, 64))


def test_a_real_config_reaches_the_source(small_root, tmp_path):
    source = open_root(small_root, "test", (64, 32), cache=str(tmp_path / "cache"))
    assert source.canvas_hw == (64, 32)
    assert [*(tmp_path / "cache").glob("test00000.mp4-*.npy")]
    with pytest.raises(InputError, match="filtersmall"):
        open_root(small_root, "test", (64, 32), small_boxes="file")


def test_saved_data_are_opened_where_they_are_and_never_made(small_root, tmp_path):
    saved = asdict(SyntheticConfig("synthetic", str(small_root), [64, 64], **SMALL))
    found = saved_config(saved, cache="there")
    assert isinstance(found, SyntheticConfig)
    assert (found.root, found.augment, found.cache) == (str(small_root), None, "there")
    for change, says in (
        ({"root": str(tmp_path)}, f"are not in {tmp_path}, and none are made .* root=ROOT"),
        ({"dwelling": 3.0}, "another version: .*dwelling"),
        ({"name": "mine"}, "dataset.name is 'mine'; choose action_genome"),
    ):
        with pytest.raises(InputError, match=says):
            saved_config(saved | change)
