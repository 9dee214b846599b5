"""From configs to sources; a data set from outside is a function and an entry."""

from dataclasses import asdict, fields

import numpy as np
import pytest
from omegaconf import OmegaConf
from PIL import Image

from bload.errors import InputError
from datasets.action_genome import VideoSource
from datasets.annotations.read import Video
from datasets.annotations.targets import FrameTargets
from datasets.build import (
    DATASETS,
    build_letterbox,
    build_source,
    build_yardsticks,
    saved_config,
)
from datasets.config import AugmentConfig, DatasetConfig, SyntheticConfig
from datasets.synthetic import World
from tests.datasets.conftest import SMALL


def config(**changes):
    return DatasetConfig(**{"name": "action_genome", "root": "r", "frame_size": [8, 8]} | changes)


def test_values_that_nothing_later_would_name_are_refused_with_their_key():
    for changes, says in (
        ({"frame_size": [0, 64]}, r"dataset.frame_size is \[0, 64\]"),
        ({"frame_size": [64]}, r"dataset.frame_size is \[64\]"),
    ):
        with pytest.raises(InputError, match=says):
            config(**changes)
    for name, value, most in (("flip", 1.5, 1), ("shrink", -0.1, 0.9)):
        with pytest.raises(InputError, match=rf"augment.{name} is {value}; give 0 to {most}"):
            AugmentConfig(**{name: value})
    with pytest.raises(InputError, match=r"no dataset 'mine'; choose one of action_genome, synth"):
        build_source(config(name="mine"), "train")


def test_a_synthetic_config_has_the_knobs_of_the_world_and_serves_as_a_schema(tmp_path):
    knobs = {knob.name: knob.default for knob in fields(World)} | {"test_videos": 2}
    knobs |= {"train_videos": 1, "image_size": 32}
    values = {"name": "synthetic", "root": str(tmp_path / "made"), "frame_size": [32, 32], **knobs}
    cfg = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(SyntheticConfig), values))
    assert isinstance(cfg, SyntheticConfig)
    assert cfg.knobs == knobs
    source = build_source(cfg, "test")
    assert len(source) == 2
    assert build_yardsticks(source, cfg).figures["remembering/recall@20"] > 0


def test_a_real_config_reaches_the_source(small_root, tmp_path):
    cfg = config(root=str(small_root), frame_size=[64, 32], cache=str(tmp_path / "cache"))
    source = build_source(cfg, "test")
    assert source.image_size_hw == (64, 32)
    assert (tmp_path / "cache" / "test" / "frames.u8").exists()
    assert build_yardsticks(source, cfg) is None
    with pytest.raises(InputError, match="filtersmall"):
        build_source(config(root=str(small_root), small_boxes="file"), "test")


def test_saved_data_are_opened_where_they_are_and_never_made(small_root, tmp_path):
    saved = asdict(
        SyntheticConfig("synthetic", str(small_root), [64, 64], **asdict(World(**SMALL)))
    )
    found = saved_config(saved, cache="there")
    assert isinstance(found, SyntheticConfig)
    assert (found.root, found.augment, found.cache) == (str(small_root), None, "there")
    for change, says in (
        ({"root": str(tmp_path)}, f"are not in {tmp_path}, and none are made .* root=ROOT"),
        ({"dwelling": 3.0}, "another version: .*dwelling"),
        ({"name": "mine"}, "no dataset 'mine'; choose one of action_genome"),
    ):
        with pytest.raises(InputError, match=says):
            saved_config(saved | change)


def test_the_letterbox_augments_as_the_config_says():
    assert build_letterbox(None, None, 0).augmentation is None
    assert build_letterbox(None, AugmentConfig(), 0).augmentation is None
    augmentation = build_letterbox(None, AugmentConfig(flip=0.5), 3).augmentation
    assert (augmentation.flip, augmentation.seed) == (0.5, 3)


def own_data(cfg, split, progress):
    """Two videos of three frames whose scene graphs are known."""
    videos = []
    for name in ("a", "b"):
        names = [f"{name}/{number:02d}.png" for number in (1, 2, 3)]
        box_14 = np.array([[1, 1, 5, 5]], np.float32)
        graph = box_14[0], box_14, np.array([2]), np.array([[0, 0]])
        videos.append(Video(name, tuple(FrameTargets(frame, (8, 6), *graph) for frame in names)))
    height, width = cfg.frame_size
    return VideoSource(cfg.root, split, videos, (height, width), cache=cfg.cache)


def test_a_data_set_from_outside_is_a_function_and_an_entry(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "own", (DatasetConfig, own_data))
    for name in ("a", "b"):
        (tmp_path / "frames" / name).mkdir(parents=True)
        for number in (1, 2, 3):
            path = tmp_path / "frames" / name / f"{number:02d}.png"
            Image.new("RGB", (6, 8), (number, ord(name), 0)).save(path)
    source = build_source(config(name="own", root=str(tmp_path)), "train")
    assert (source.videos, source.lengths.tolist()) == (("a", "b"), [3, 3])
    frames_TCHW, targets = source.read(1, 1, 2)
    assert frames_TCHW[:, :2, 0, 0].tolist() == [[2, ord("b")], [3, ord("b")]]
    assert [target.name for target in targets] == ["b/02.png", "b/03.png"]
