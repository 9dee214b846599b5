"""Every config composes, and says what it is documented to say."""

import dataclasses
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bload import PACKERS
from datasets.synthetic import World
from experiments.cli import CONFIGS
from experiments.config import check_values, plain, register, without
from tests.experiments.jobs import compose_config

GROUPS = sorted(
    f"{path.parent.relative_to(CONFIGS)}={path.stem}" for path in CONFIGS.glob("*/**/*.yaml")
)


@pytest.mark.parametrize("choice", GROUPS)
def test_every_config_file_composes_into_a_whole_job(choice):
    given = [choice, "dataset.root=somewhere"] if choice.startswith("dataset") else [choice]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose("train", given)
    assert not OmegaConf.missing_keys(config)
    check_values(plain(config))
    group, _, name = choice.partition("=")
    if group in ("loader", "dataset", "model"):
        assert config[group].name == name


def test_there_is_a_config_for_every_loader():
    assert {path.stem for path in (CONFIGS / "loader").glob("*.yaml")} == {*PACKERS}


def test_an_evaluation_lacks_its_checkpoint_alone():
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        assert OmegaConf.missing_keys(compose("eval")) == {"checkpoint"}


def test_the_synthetic_config_says_the_defaults_of_the_world():
    config = yaml.safe_load((CONFIGS / "dataset" / "synthetic.yaml").read_text())
    for field in dataclasses.fields(World):
        assert config[field.name] == field.default, field.name
    composed = compose_config("train", [])["dataset"]
    knobs = without(composed, "name", "root", "frame_size", "small_boxes", "cache", "augment")
    assert World(**knobs) == World()


def test_the_synthetic_root_and_frame_size_follow_from_the_knobs():
    dataset = compose_config("train", ["dataset.image_size=48", "dataset.seed=5"])["dataset"]
    assert dataset["frame_size"] == [48, 48]
    assert dataset["root"] == "data/synthetic-1000-60-48px-s5"


def test_wandb_is_offline_unless_asked():
    assert compose_config("train", [])["wandb"]["mode"] == "offline"


def test_registering_twice_is_fine():
    register()
    register()


def test_the_configs_are_those_beside_the_entry_points():
    assert (Path(CONFIGS).parent / "train.py").is_file()
