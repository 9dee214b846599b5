"""Every config composes into a checked job, and says what it is documented to say."""

import re
import shlex
import sys
from dataclasses import asdict, fields

import pytest
import yaml

from bload import PACKERS, InputError
from bload.packing.packers import find_packer
from datasets.config import SyntheticConfig
from models.config import LossConfig, ModelConfig
from tests.installation import ROOT, run
from training.compose import compose_job
from training.config import CONFIGS, TrainConfig
from training.loader_config import loader_schema

GROUPS = sorted(
    f"{path.parent.relative_to(CONFIGS)}={path.stem}"
    for path in CONFIGS.glob("*/*.yaml")
    if not path.stem.startswith("_")
)


def test_every_config_file_composes_into_a_whole_job():
    for choice in GROUPS:
        group, _, name = choice.partition("=")
        job = compose_job("train", [choice])
        if group in ("dataset", "model"):
            assert getattr(job, group).name == name


def test_the_file_of_a_loader_has_the_options_of_its_packer_at_their_defaults():
    for name in PACKERS:
        options = yaml.safe_load((CONFIGS / f"loader/{name}.yaml").read_text())
        assert (options.pop("defaults"), options.pop("name")) == ([f"{name}_schema"], name)
        expected = find_packer(name).options
        assert options == {key: value for key, value in expected.items() if key != "batch_slots"}
        assert compose_job("train", [f"loader={name}"]).loader.name == name


def test_an_evaluation_lacks_its_checkpoint_alone():
    compose_job("eval", ["checkpoint=somewhere"])
    with pytest.raises(InputError, match="checkpoint=runs/NAME"):
        compose_job("eval", [])


def test_the_synthetic_root_and_frame_size_follow_from_the_knobs():
    dataset = compose_job("train", ["dataset.image_size=48", "dataset.seed=5"]).dataset
    assert dataset.frame_size == [48, 48]
    assert dataset.root == "data/synthetic-1000-60-60-200-48px-s5"


def test_values_out_of_range_are_refused_by_name():
    for line, words in (
        ("train.epochs=0", ("train.epochs", "0", "1")),
        ("train.lr=-1", ("train.lr", "-1", "0")),
        ("train.clip_norm=0", ("train.clip_norm", "0")),
        ("train.slots=0", ("train.slots", "0", "null")),
        ("train.ema=1", ("train.ema", "1")),
        ("train.bptt=0", ("train.bptt", "0", "null")),
        ("train.starts=never", ("starts", "never", "ignored")),
        ("train.padding=zeros", ("padding", "zeros", "repeated")),
        ("model.width=2", ("model.width", "2", "4")),
        ("model.dropout=1", ("model.dropout", "1")),
        ("model.dropout=-0.1", ("model.dropout", "-0.1", "0")),
        ("model.heads=0", ("model.heads", "0", "1")),
        ("model.queries=0", ("model.queries", "0", "1")),
        ("model.feedforward=0", ("model.feedforward", "0", "1")),
        ("model.encoder_layers=0", ("model.encoder_layers", "0", "1")),
        ("model.decoder_layers=0", ("model.decoder_layers", "0", "1")),
        ("model.temporal_layers=0", ("model.temporal_layers", "0", "1")),
        ("loss.match_boxes=best", ("loss.match_boxes", "best", "worst")),
        ("loss.relation_weight=0", ("loss.relation_weight", "0")),
        ("model.heads=3", ("model.heads", "3", "64")),
        ("model.temporal=lstm", ("model.temporal", "lstm", "scan")),
        ("model.backbone=vgg", ("model.backbone", "vgg", "resnet50")),
        ("train.batch_slots=0", ("train.batch_slots", "0", "1")),
        ("train.step_at=5", ("train.step_at", "5", "1")),
        ("dataset.small_boxes=some", ("dataset.small_boxes", "some", "computed")),
        ("loader.t_max=0", ("loader.t_max", "0", "null")),
        ("loader.draw=frame", ("loader.draw", "frame", "length")),
        ("model.recompute=some", ("model.recompute", "some", "auto")),
        ("wandb.mode=on", ("wandb.mode", "on", "offline")),
        ("train.warmup_epochs=-1", ("train.warmup_epochs", "-1", "0")),
        ("train.muon_lr=-1", ("train.muon_lr", "-1", "null")),
        ("train.micro_batches=0", ("train.micro_batches", "0", "1")),
        ("train.sync_every=0", ("train.sync_every", "0", "1")),
        ("train.checkpoint_minutes=-1", ("train.checkpoint_minutes", "-1", "0")),
        ("train.log_every=0", ("train.log_every", "0", "1")),
        ("train.eval_every=-1", ("train.eval_every", "-1", "0")),
        ("train.evals_per_epoch=-1", ("train.evals_per_epoch", "-1", "0")),
        ("train.workers=-2", ("train.workers", "-2", "-1")),
        ("train.timeout=0", ("train.timeout", "0", "1")),
        ("train.seed=-1", ("train.seed", "-1", "0")),
        ("train.schedule=linear", ("train.schedule", "linear", "cosine")),
        ("train.amp=fp16", ("train.amp", "fp16", "bf16")),
        ("train.device=tpu", ("train.device", "tpu", "cpu")),
        ("train.exchange=queries", ("train.exchange", "queries", "frames")),
        ("train.sync=ring", ("train.sync", "ring", "gossip")),
        ("model.time=clock", ("model.time", "clock", "gap")),
        ("dataset.frame_size=[4,64]", ("dataset.frame_size", "4", "8")),
        ("dataset.frame_size=[64]", ("dataset.frame_size", "[64]")),
        ("dataset.augment={flip:2}", ("dataset.augment.flip", "2", "1")),
        ("dataset.augment={shrink:-0.1}", ("dataset.augment.shrink", "-0.1", "0.9")),
        ("loader.last=keep", ("loader.last", "keep", "drop")),
        ("loader.balance=piles", ("loader.balance", "piles", "queue")),
        ("loader.window=0", ("loader.window", "0", "1")),
        ("loader.cost=cheap", ("loader.cost", "cheap", "slots")),
        ("loader.cost=[-1]", ("loader.cost", "-1", "slots")),
        ("loader.block_sizes=[]", ("loader.block_sizes", "[]", "number")),
        ("loader.long=cut", ("loader.long", "cut", "truncate")),
        ("loader.segments_per_block=0", ("loader.segments_per_block", "0", "1")),
        ("loader=bucket loader.buckets=-3", ("loader.buckets", "-3", "1")),
        ("loader=sampling loader.clips=half", ("loader.clips", "'half'", "one or all")),
        ("dataset.dwell=0", ("dataset.dwell", "0", "1")),
        ("run.root=''", ("run.root", "folder")),
        ("run.name=a/b", ("run.name", "a/b", "letters")),
        ("+train.epoch=3", ("train.epoch ", "train.epochs?")),
        ("+epochs=3", ("epochs ", "train.epochs?")),
    ):
        with pytest.raises(InputError) as error:
            compose_job("train", line.split())
        assert all(word in str(error.value) for word in words), str(error.value)
    assert compose_job("train", ["loader=sampling", "loader.t_max=22"]).loader.t_max == 22


def test_a_mistyped_key_or_choice_is_a_sentence_with_the_right_one():
    for line, words in (
        ("loader.tmax=32", "no key loader.tmax .*loader.t_max?"),
        ("epochs=3", "no key epochs .*train.epochs?"),
        ("loader=blod", "bload_exact"),
        ("loader.t_max=many", "loader.t_max=many.*'many'"),
    ):
        with pytest.raises(InputError, match=f"(?s){words}"):
            compose_job("train", [line])


def test_the_docs_quote_values_as_hydra_reads_them():
    text = (CONFIGS.parent / "docs" / "reproduction.md").read_text()
    quoted = re.findall(r"^python train.py ('.*)$", text, re.M)
    runs = [compose_job("train", shlex.split(line)).run for line in quoted]
    assert [runs[0].name, runs[1].root] == ["lr=1e-3,long", "/data/München #1"]


def test_slots_become_the_nearest_whole_number_of_epochs():
    job = compose_job("train", ["train.epochs=5", "train.warmup_epochs=1"]).train
    assert job.with_epochs_for_slots(100) is job
    for slots, per_epoch, epochs in ((116_360, 10_032, 12), (116_360, 23_220, 5), (1, 86_000, 1)):
        equal = TrainConfig(**{**asdict(job), "slots": slots}).with_epochs_for_slots(per_epoch)
        assert (equal.epochs, equal.warmup_epochs) == (epochs, epochs / 5)


HELP = """
import runpy, sys
sys.argv = ["train.py", "--help"]
try:
    runpy.run_path("train.py", run_name="__main__")
finally:
    assert "torch" not in sys.modules
"""


def test_help_says_what_every_key_means_without_torch():
    said = run([sys.executable, "-c", HELP], cwd=ROOT, more={"PYTHONPATH": str(ROOT)})
    schemas = (TrainConfig, ModelConfig, LossConfig, SyntheticConfig, loader_schema("bload"))
    names = [f"{schema.prefix}{key.name}" for schema in schemas for key in fields(schema)]
    assert len(names) > 60
    for name in names:
        assert re.search(rf"^  {name}=.+?  +\S", said, re.M), name
    assert said.index("train.epochs=") < said.index("run.resume=") < said.index("train.slots=")
