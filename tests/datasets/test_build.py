"""From configs to sources."""

from dataclasses import asdict

import pytest

from bload.errors import InputError
from datasets.build import build_source, saved_config
from datasets.config import DatasetConfig, SyntheticConfig
from tests.datasets.conftest import SMALL


def config(**changes):
    values = {"name": "action_genome", "root": "r", "frame_size": [8, 8]}
    return DatasetConfig(**values | changes)


def test_a_real_config_reaches_the_source(small_root, tmp_path):
    cfg = config(root=str(small_root), frame_size=[64, 32], cache=str(tmp_path / "cache"))
    source = build_source(cfg, "test")
    assert source.canvas_hw == (64, 32)
    assert [*(tmp_path / "cache").glob("test00000.mp4-*.npy")]
    with pytest.raises(InputError, match="filtersmall"):
        build_source(config(root=str(small_root), small_boxes="file"), "test")


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
