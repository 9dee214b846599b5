"""Every config composes into a checked job, and says what it is documented to say."""

import re
import sys
from dataclasses import fields

import pytest

from bload import InputError
from datasets.config import SyntheticConfig
from models.config import LossConfig, ModelConfig
from tests.installation import ROOT, run
from training.compose import compose_job
from training.config import CONFIGS, TrainConfig, loader_schema, naming_keys
from training.stopping import AgreedError

GROUPS = sorted(
    f"{path.parent.relative_to(CONFIGS)}={path.stem}"
    for path in CONFIGS.glob("*/*.yaml")
    if not path.stem.startswith("_")
)


def test_every_config_file_composes_into_a_whole_job():
    for choice in GROUPS:
        group, _, name = choice.partition("=")
        job = compose_job("train", [choice])
        if group in ("dataset", "model", "loader"):
            assert getattr(job, group).name == name


def test_a_value_or_key_that_no_config_takes_is_refused_in_a_sentence():
    for line, words in (
        ("train.epochs=0", "train.epochs is 0; give 1 to"),
        ("train.lr=-1", "train.lr is -1.*; give 0 to"),
        ("train.slots=0", "train.slots is 0; .* or null"),
        ("train.starts=never", "train.starts.*never.*ignored"),
        ("train.workers=-2", "train.workers is -2"),
        ("model.heads=3", "4 and model.heads=3 must divide model.width=64"),
        ("model.width=50 model.heads=5", "must divide model.width=50"),
        ("model.recompute=some", "model.recompute.*some.*auto"),
        ("dataset.frame_size=[64]", r"dataset.frame_size.*\[64\]"),
        ("dataset.augment={flip:2}", "dataset.augment.flip is 2"),
        ("loader.draw=frame", "loader.draw.*frame.*length"),
        ("loader.cost.slot=-1", "loader.cost.slot is -1.*; give a finite number"),
        ("loader.cost.slots=1", "'slots' is unknown"),
        ("loader=sampling loader.clips=half", "loader.clips.*'half'.*one or all"),
        ("train.padding=repeated loader.long=carry loader.t_max=9", "set train.padding=masked"),
        ("dataset.dwell=0", "dataset.dwell is 0"),
        ("train.exchange=frames train.sync=local", "train.exchange=frames needs"),
        ("train.exchange=frames loader.balance=uneven", "train.exchange=frames needs"),
        ("+train.epoch=3", "no key train.epoch; did you mean epochs?"),
        ("+dataset.augment.flipp=1", "no key dataset.augment.flipp; did you mean flip?"),
        ("loader.tmax=32", "(?s)'loader.tmax'.*'tmax' is unknown.*; did you mean t_max?"),
        ("loader=blod", "loader/blod.*in 'loader': bload bload_exact"),
        ("loader.t_max=many", "(?s)loader.t_max=many.*'many'"),
    ):
        with pytest.raises(InputError, match=words):
            compose_job("train", line.split())


def test_what_the_library_refuses_is_said_in_keys_with_their_groups():
    job = compose_job("train", [])
    roots = [compose_job("train", line).dataset.root for line in ([], ["dataset.dwell=8"])]
    assert roots[1] == f"{roots[0]}-dwell8.0"  # a world has a root of its own
    for words, expected in (
        ("lower batch_slots or set last=fill", "lower train.batch_slots or set loader.last=fill"),
        ("v_t has 9 frames but t_max is 4", "v_t has 9 frames but loader.t_max is 4"),
        ("elastic=True begins; loader.long=x", "run.resume=elastic begins; loader.long=x"),
        ("runs/lr=1/last.pt and data/t_max", "runs/lr=1/last.pt and data/t_max"),
    ):
        with pytest.raises(AgreedError) as refusal, naming_keys(job):  # the ranks still agree
            raise AgreedError(words)
        assert str(refusal.value) == expected


HELP = """
import runpy, sys
sys.argv = [sys.argv[1], "--help"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    assert "torch" not in sys.modules
"""


def test_help_says_what_every_key_means_without_torch():
    line, more = [sys.executable, "-c", HELP], {"PYTHONPATH": str(ROOT)}
    said, *_ = (run([*line, name], cwd=ROOT, more=more) for name in ("train.py", "eval.py"))
    schemas = (TrainConfig, ModelConfig, LossConfig, SyntheticConfig, loader_schema("bload"))
    names = [f"{schema.prefix}{key.name}" for schema in schemas for key in fields(schema)]
    assert len(names) > 60
    for name in names:
        assert re.search(rf"^  {name}=.+?\s\s+\S", said, re.M), name
