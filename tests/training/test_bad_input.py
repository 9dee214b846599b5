"""Bad input ends in one sentence that names the thing and the way out, and writes nothing."""

import json
import pickle
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

import eval as evaluation
import train
from datasets.synthetic.writer import ensure
from tests.training.jobs import (
    WORLD,
    checkpoint,
    compose_config,
    contents,
    interrupted,
    one_rank,
    only_run,
    overrides,
)
from training import cli
from training.checkpoint import sealed


@pytest.fixture(scope="module")
def stopped_in_mid_epoch(data_root, tmp_path_factory) -> Path:
    """Runs with one that stopped after two steps."""
    runs = tmp_path_factory.mktemp("stopped")
    lines = overrides(data_root, runs, "run.name=here", "train.checkpoint_every=1")
    with interrupted((0, 2)), pytest.raises(KeyboardInterrupt):
        train.train(compose_config("train", lines), one_rank())
    assert checkpoint(runs / "here")["loader"]["step"] == 2
    return runs


@pytest.fixture
def going_on(sentence, command_line, stopped_in_mid_epoch, tmp_path) -> Callable[..., str]:
    """The sentence with which going on with a copy of that run ends, which it leaves as it was."""
    runs = tmp_path / "runs"
    shutil.copytree(stopped_in_mid_epoch, runs)

    def go_on(*more: str) -> str:
        before = contents(runs)
        said = sentence(train, *command_line("run.name=here", *more))
        assert contents(runs) == before
        return said

    return go_on


def test_a_wrong_value_is_reported_and_changes_nothing(going_on):
    for wrong, thing, way_out in (
        ("train.epoch=3", "'train.epoch'", "train.epochs?"),
        ("loaderr=naive", "'loaderr'", "loader?"),
        ("train.zzz=3", "'train.zzz'", "train.epochs, train.batch_frames"),
        ("+train.epoch=3", "'train.epoch'", "train.epochs?"),
        (
            "loader=blod",
            "loader 'blod'",
            "bload, bload_exact, bucket, mix, naive, ragged, sampling, single",
        ),
        ("experiment=null", "experiment 'null'", "paper_table"),
        ("train.epochs=many", "train.epochs is 'many'", "a whole number"),
        ("train.muon_lr=abc", "train.muon_lr is 'abc'", "a number, or null"),
        ("train.deterministic=5.5", "train.deterministic is 5.5", "true or false"),
        ("train.epochs=null", "train.epochs is null", "a whole number"),
        ("loader.t_max=[1]", "loader.t_max is [1]", "a whole number, or null"),
        ("dataset.frame_size=480", "dataset.frame_size is 480", "a list of whole numbers"),
        ("dataset.frame_size=[a,4]", "dataset.frame_size[0] is 'a'", "whole numbers"),
        ("dataset.augment=some", "dataset.augment is 'some'", "dataset.augment.KEY=VALUE"),
        ("run.name=[a]", 'run.name is ["a"]', "text, or null"),
        ("wandb.tags=quick", "wandb.tags is 'quick'", "a list, as [a,b], or null"),
        ("train.epochs", "'train.epochs'", "KEY=VALUE"),
        ("train.epochs 3", "'train.epochs 3'", "write train.epochs=3"),
        ("loader = bload train.seed=1", "'loader = bload'", "write loader=bload"),
        ("loader= bload", "'loader= bload'", "write loader=bload"),
        ("loader =bload", "'loader =bload'", "write loader=bload"),
        ("wandb.notes=two words", "'words'", "quotes around a value"),
        ("runs/here", "'runs/here'", "python eval.py checkpoint=runs/here evaluates"),
        ("epochs=3", "'epochs'", "mean train.epochs?"),
        ("seed=3", "'seed'", "mean dataset.seed or train.seed?"),
        ("lodaer.t_mxa=3", "'lodaer.t_mxa'", "mean loader.t_max?"),
        ("--hlep", "'--hlep'", "mean --help?"),
        ("--train.epochs=3", "'--train.epochs'", "write train.epochs=3"),
        ("--cfg jobs", "'jobs'", "choose from 'job'"),
        ("adamw=nope", "adamw 'nope'", "choose one of dds_tiny"),
        ("adamw=nope --cfg job", "adamw 'nope'", "choose one of dds_tiny"),
        ("train.lr=0.5", "train.lr was 0.0015 and is 0.5", "run.name"),
        ("train.seed=-1", "seed is -1", "0"),
        ("train.seed=1180591620717411303424", "train.seed is 1.181e+21", "0 to"),
        ("train.epochs=100000000000000000000000000", "train.epochs is 1e+26", "1000000"),
        ("train.epochs=1e26", "train.epochs is 1e+26", "a whole number"),
        ("train.workers=5000", "workers is 5000", "256"),
        ("train.eval_every=-1", "eval_every is -1", "0 to"),
        ("train.step_at=7", "step_at is 7", "0 to 1"),
        ("train.lr=nan", "lr is nan", "finite"),
        ("train.warmup_epochs=nan", "warmup_epochs is nan", "finite"),
        ("train.timeout=inf", "timeout is inf", "1 to"),
        ("model.dropout=nan", "dropout is nan", "0 to"),
        ("model.queries=1000000", "queries is 1000000", "10000"),
        ("model.width=65536", "a model of", "free"),
        ("loader.t_max=1000000000000", "t_max is 1000000000000", "10000000"),
        ("train.batch_frames=1000000000000", "batch_frames is", "10000000"),
        ("dataset.frame_size=[1,1]", "frame_size is [1, 1]", "8 to 8192"),
        ("train.epochs=[1", "'train.epochs=[1'", "KEY='VALUE'"),
        ("train.epochs=${nope}", "'nope'", "train.epochs"),
        ("run.name=<script>", "run.name=<script>", "KEY='VALUE'"),
        ("=3", "'=3'", "KEY=VALUE"),
        ("run.root=", "run.root", "folder"),
        ("train.schedule=linear", "'linear'", "cosine or step"),
        ("train.amp=fp16", "'fp16'", "auto, bf16"),
        ("train.device=tpu", "'tpu'", "auto, cpu or cuda"),
        ("loss.relations_on=some", "'some'", "matched or all"),
        ("loader.last=repeat", "'repeat'", "fill or drop"),
        ("loader.t_max=10", "frames but t_max is 10", "raise loader.t_max to 45"),
        ("train.batch_frames=10", "batch_frames is 10", "raise train.batch_frames to 45"),
        ("dataset.seed=4", "seed is 3 there and 4 here", "path"),
        ("model.width=32", "model.width was 64 and is 32", "run.resume=never"),
        ("train.seed=1", "seed was 0 and is 1", "run.name"),
        ("loader.t_max=50", "t_max was None and is 50", "run.name"),
        ("train.batch_frames=96", "a run on 1 rank", "train.batch_frames=45"),
        ("loader.draw=length", "loader.draw was 'video' and is length", "run.name"),
        ("loader=naive", "loader.name was 'bload' and is naive", "run.name"),
        ("run.resume=nowhere.pt", "no checkpoint nowhere.pt", ".pt file"),
        ("run.resume=never wandb.mode=on", "'on'", "offline"),
        ("loader=mix loader.draw=length", "'loader.draw'", "mean loader.deal?"),
        ("train.seed=3,4", "2 runs, over train.seed", "python train.py -m "),
        ("-m train.seed=3,4", "'train.seed=3'", "run.name"),
    ):
        said = going_on(*wrong.split())
        assert thing in said, said
        assert way_out in said, said


def test_a_checkpoint_of_other_videos_is_refused(going_on, tmp_path):
    other = replace(WORLD, train_videos=9)
    ensure(tmp_path / "other", progress=False, **asdict(other))
    said = going_on(f"dataset.root={tmp_path / 'other'}", "dataset.train_videos=9")
    assert "dataset.train_videos was 8 and is 9" in said


class Harm:
    def __reduce__(self):
        return pytest.fail, ("a checkpoint was executed",)


@pytest.mark.filterwarnings("ignore:.*pickle protocol:UserWarning")
def test_a_file_that_is_no_checkpoint_is_refused(sentence, going_on, tmp_path):
    for number, make in enumerate(
        (
            lambda path: path.write_bytes(b""),
            lambda path: path.write_text("hello\n"),
            lambda path: path.write_bytes(b"\x80\x02" + bytes(range(256))),
            lambda path: path.write_bytes(pickle.dumps(Harm())),
            lambda path: torch.save({"model": Harm(), "config": {}}, path),
            lambda path: torch.save({"weight": torch.zeros(2)}, path),
            lambda path: torch.save([1, 2], path),
            lambda path: path.mkdir(),
        )
    ):
        path = tmp_path / f"garbage{number}.pt"
        make(path)
        said = going_on(f"run.resume={path}")
        assert str(path) in said
        assert "give" in said
    said = sentence(evaluation, f"checkpoint={tmp_path / 'garbage1.pt'}")
    assert f"{tmp_path / 'garbage1.pt'} (6 bytes)" in said


def test_a_checkpoint_that_lacks_what_training_needs_is_refused(
    going_on, stopped_in_mid_epoch, tmp_path
):
    path = tmp_path / "other.pt"
    for changes, says in (
        ({"loader": None}, "this version cannot go on from"),
        ({"progress": "text"}, "this version cannot go on from"),
        ({"progress": {"evaluated": "no"}}, "progress.evaluated is 'no'"),
        ({"progress": {"epochs": [{}]}}, "1 epochs' figures"),
        ({"optimiser": {}}, "KeyError: 'parts'"),
        ({"model": {}}, "Missing key"),
        ({"epochs": 9}, "trained for 9 epochs and train.epochs is 2"),
    ):
        state = checkpoint(stopped_in_mid_epoch / "here") | changes
        if "epochs" in changes:
            state["loader"]["epoch"], state["progress"]["epochs"] = 9, [{}] * 9
        path.write_bytes(sealed(state))
        assert says in going_on(f"run.resume={path}", "run.name=other")


def test_two_halves_of_checkpoints_are_refused_and_left_alone(going_on, tmp_path):
    last, previous = (tmp_path / "runs" / "here" / name for name in ("last.pt", "previous.pt"))
    for path in (last, previous):
        path.write_bytes(path.read_bytes()[:-1000])
    said = going_on()
    assert f"{previous} (" in said
    assert "run.resume=never" in said


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b"\xff", b"[" * 10**5, b'{"loader": 3}'])
def test_damaged_records_cost_one_sentence_at_most(
    sentence, command_line, tmp_path, finished, damage
):
    """That of the run itself says what to remove; those of neighbours change nothing."""
    runs = tmp_path / "runs"
    for name in ("here", "beside"):
        shutil.copytree(finished, runs / name)
    line = command_line("run.name=here", "train.epochs=1", "train.log_every=1")
    for name in ("config.json", "metrics.jsonl", "summary.json"):
        (runs / "beside" / name).write_bytes(damage)
    (runs / "results.csv").write_bytes(damage)
    train.train(compose_config("train", line), one_rank())
    assert "here" in (runs / "results.csv").read_text()
    for name in ("summary.json", "config.json"):
        shutil.copy(finished / name, runs / "beside" / name)
        (runs / "here" / name).write_bytes(damage)
        before = contents(runs / "here")
        said = sentence(train, *line)
        assert str(runs / "here" / name) in said
        assert "remove it" in said
        assert contents(runs / "here") == before
        shutil.copy(finished / name, runs / "here" / name)


def test_going_on_from_elsewhere_never_writes_over_a_run(going_on, tmp_path):
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "runs" / "here" / "last.pt", tmp_path / "other" / "last.pt")
    said = going_on(f"run.resume={tmp_path / 'other'}")
    assert str(tmp_path / "runs" / "here") in said
    assert "run.name" in said


def test_a_data_root_without_data_is_reported(sentence, tmp_path):
    root, runs = tmp_path / "nothing", tmp_path / "runs"
    for make in (lambda: None, root.mkdir):
        make()
        said = sentence(train, "dataset=action_genome", f"dataset.root={root}", f"run.root={runs}")
        assert str(root) in said
        assert "annotations/ and frames/" in said
    assert not runs.exists()


def test_data_of_the_other_kind_are_refused_with_the_kind_to_choose(
    sentence, command_line, data_root, real_root, tmp_path
):
    real = ("dataset=action_genome", f"dataset.root={data_root}", f"run.root={tmp_path / 'runs'}")
    for line, root, choice in (
        (real, data_root, "synthetic"),
        (command_line(f"dataset.root={real_root}"), real_root, "action_genome"),
        (("-m", *real, "loader.t_max=90"), data_root, "synthetic"),  # before the first job
    ):
        said = sentence(train, *line)
        assert said.startswith(f"{root} holds ")
        assert f"choose dataset={choice}" in said
    assert not (tmp_path / "runs").exists()


def test_too_short_a_block_is_refused_before_a_video_is_drawn(sentence, command_line, tmp_path):
    said = sentence(train, *command_line("loader.t_max=2", f"dataset.root={tmp_path / 'new'}"))
    assert "frames but t_max is 2; raise loader.t_max to " in said
    assert not (tmp_path / "new").exists()


def test_a_synthetic_root_is_never_written_over_other_files(going_on, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    said = going_on(f"dataset.root={tmp_path / 'mine'}")
    assert f"{tmp_path / 'mine'} " in said
    assert contents(tmp_path / "mine") == {"thesis.txt": b"dear"}


def test_frames_that_cannot_be_read_are_reported(
    sentence, command_line, going_on, data_root, tmp_path
):
    """They are missing, or cut short; any step comes upon one."""
    last = tmp_path / "runs" / "here" / "last.pt"
    before = last.read_bytes()
    for name, spoil, says in (
        ("missing", Path.unlink, r"ROOT/frames: .*\(174\).*train\S+\.png; .*datasets.prepare"),
        (
            "short",
            lambda frame: frame.write_bytes(frame.read_bytes()[:-40]),
            r".*ROOT/frames/train\d+\.mp4/\d+\.png .*; .*copy it again",
        ),
    ):
        root = tmp_path / name
        shutil.copytree(data_root, root)
        for frame in (root / "frames").glob("train*/*.png"):
            spoil(frame)
        said = sentence(train, *command_line("run.name=here", f"dataset.root={root}"))
        assert re.match(says.replace("ROOT", re.escape(str(root))), said)
        assert last.read_bytes() == before


def test_training_that_diverges_is_reported(sentence, command_line, tmp_path):
    said = sentence(train, *command_line("train.lr=1e30", "train.warmup_epochs=0"))
    assert "learning rate" in said or "train.lr" in said
    folder = only_run(tmp_path / "runs")
    assert re.search(r"epoch 1, step \d.* in videos train\d+", said)
    assert f"the last good checkpoint is {folder / 'last.pt'}, epoch 1, step 0" in said
    assert json.loads((folder / "error.json").read_text())["error"] == said
    assert said in (folder / "rank0.log").read_text()
    saved = checkpoint(folder)  # the one that a run begins with
    assert (saved["epoch"], saved["loader"]["step"]) == (0, 0)
    assert all(bool(value.isfinite().all()) for value in saved["model"].values())


def test_a_sweep_under_torchrun_says_what_to_type(sentence, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    for flag in ("-m", "--multirun"):
        said = sentence(train, flag, "loader=naive,bload")
        assert "python train.py -m loader=naive,bload" in said


def test_blocks_that_are_too_short_are_refused_before_the_first_job(
    sentence, command_line, real_root, tmp_path
):
    real = ("dataset=action_genome", "dataset.small_boxes=keep", f"dataset.root={real_root}")
    others = [one for one in command_line() if not one.startswith("dataset.")]
    for line in (command_line(), [*others, *real]):
        said = sentence(train, "-m", *line, "loader.t_max=64,32")
        assert "33 frames but t_max is 32; raise loader.t_max to 45" in said
        assert all(f"loader.long={way}" in said for way in ("split", "carry", "truncate"))
    for loader in ("ragged", "bucket", "single"):
        said = sentence(train, "-m", *command_line(), f"loader={loader}", "loader.t_max=64,32")
        assert "loader.long=split" in said
        assert "carry" not in said
    assert not (tmp_path / "runs").exists()


def test_weights_that_are_not_there_are_refused_before_the_first_job(
    sentence, command_line, tmp_path
):
    weights = "model.weights=frames/last.pt"
    assert "no file frames/last.pt" in sentence(train, "-m", *command_line(), weights)
    assert not (tmp_path / "runs").exists()


def test_a_sweep_has_no_one_config_to_show(sentence):
    assert "leave out -m" in sentence(train, "-m", "loader=naive,bload", "--cfg", "job")


def test_options_of_hydra_are_left_to_hydra(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train.py", "--cfg", "job", "train.epochs=7"])
    cli.run(pytest.fail, "train")
    assert "epochs: 7" in capsys.readouterr().out
