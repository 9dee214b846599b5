"""From configs to sources."""

from dataclasses import asdict, fields

import pytest
from omegaconf import OmegaConf

from bload.errors import InputError
from datasets.augmentation import Augmentation
from datasets.build import build_source, saved_config
from datasets.config import AugmentConfig, DatasetConfig, SyntheticConfig
from datasets.letterbox import Letterbox
from datasets.synthetic.world import World
from tests.datasets.conftest import SMALL


def config(**changes):
    values = {"name": "action_genome", "root": "r", "frame_size": [8, 8]}
    return DatasetConfig(**values | changes)


def test_a_synthetic_config_has_the_knobs_of_the_world_and_serves_as_a_schema(tmp_path):
    knobs = {knob.name: knob.default for knob in fields(World)} | {"test_videos": 2}
    knobs |= {"train_videos": 1, "validation_videos": 1, "final_videos": 1, "image_size": 32}
    values = {"name": "synthetic", "root": str(tmp_path / "made"), "frame_size": [32, 32], **knobs}
    cfg = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(SyntheticConfig), values))
    assert isinstance(cfg, SyntheticConfig)
    assert cfg.knobs == knobs
    source = build_source(cfg, "test")
    assert len(source) == 2


def test_a_real_config_reaches_the_source(small_root, tmp_path):
    cfg = config(root=str(small_root), frame_size=[64, 32], cache=str(tmp_path / "cache"))
    source = build_source(cfg, "test")
    assert source.image_size_hw == (64, 32)
    assert (tmp_path / "cache" / "test" / "frames.u8").exists()
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
        ({"name": "mine"}, "dataset.name is 'mine'; choose action_genome"),
    ):
        with pytest.raises(InputError, match=says):
            saved_config(saved | change)


def test_the_letterbox_augments_as_the_config_says():
    for config, changes in ((AugmentConfig(), False), (AugmentConfig(flip=0.5), True)):
        augmentation = Augmentation(**vars(config), seed=3)
        assert augmentation.flip == config.flip
        assert (Letterbox(None, augmentation).augmentation is augmentation) == changes
