"""Bad input ends in one sentence that names the thing and the way out, and writes nothing."""

import pickle
import re
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

import eval as evaluation
import train
from datasets.synthetic.writer import ensure
from experiments import cli
from tests.experiments.jobs import (
    WORLD,
    checkpoint,
    compose_config,
    contents,
    interrupted,
    one_rank,
    overrides,
)

BAR = re.compile(r"\d+%\||\?it/s|^\s*(\x1b\[A)*\s*$")


@pytest.fixture
def sentence(monkeypatch, capsys):
    """Type a command line; give the one sentence with which it ends."""

    def type_and_read(module, *arguments: str) -> str:
        name = {train: "train", evaluation: "eval"}[module]
        monkeypatch.setenv("HYDRA_MAIN_MODULE", "__main__")  # find configs/ beside the script
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.run(module.main, name)
        assert end.value.code == 2
        lines = re.split(r"[\r\n]", capsys.readouterr().err)
        (line,) = (line for line in lines if not BAR.search(line))
        start = f"{name}.py: error: "
        assert line.startswith(start)
        return line.removeprefix(start)

    return type_and_read


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
def line(command_line, stopped_in_mid_epoch, tmp_path):
    """The command line that would go on with a copy of that run, and some more."""
    shutil.copytree(stopped_in_mid_epoch, tmp_path / "runs")
    return lambda *more: command_line("run.name=here", *more)


@pytest.mark.parametrize(
    ("wrong", "thing", "way_out"),
    [
        ("train.epoch=3", "'train.epoch'", "did you mean train.epochs?"),
        ("trian.epochs=3", "'trian.epochs'", "did you mean train.epochs?"),
        ("loaderr=naive", "'loaderr'", "did you mean loader?"),
        ("train.zzz=3", "'train.zzz'", "train has epochs, slots, batch_frames"),
        ("zzz.lr=3", "'zzz.lr'", "there are loader, dataset"),
        ("+train.epoch=3", "'train.epoch'", "leave it out"),
        ("loader=blod", "no loader 'blod'", "one of bload, bload_exact, mix, naive, sampling"),
        ("train.epochs=many", "train.epochs=many", "'many' of type 'str'"),
        ("train.epochs=0", "epochs is 0", "at least 1"),
        ("train.slots=0", "train.slots is 0", "at least 1"),
        ("train.padding=zeros", "padding is 'zeros'", "choose one of masked, repeated"),
        ("train.workers=-1", "train.workers is -1", "at least 0"),
        ("train.log_every=0", "train.log_every is 0", "at least 1"),
        ("train.checkpoint_every=0", "train.checkpoint_every is 0", "at least 1"),
        ("train.clip_norm=0", "train.clip_norm is 0", "more than 0"),
        ("model.queries=0", "model.queries is 0", "at least 1"),
        ("train.lr=0.5", "train.lr was 0.0015 and is 0.5", "another run.name"),
        ("train.seed=-1", "seed is -1", "count from 0"),
        ("train.schedule=linear", "'linear'", "cosine or step"),
        ("train.amp=fp16", "'fp16'", "auto, bf16 or off"),
        ("train.device=tpu", "'tpu'", "auto, cpu or cuda"),
        ("wandb.mode=on", "'on'", "offline, online or disabled"),
        ("loss.relations_on=some", "'some'", "matched or all"),
        ("loader.last=repeat", "'repeat'", "fill or drop"),
        ("loader.t_max=10", "frames but t_max is 10", "raise t_max to 45"),
        ("train.batch_frames=10", "batch_frames is 10", "raise batch_frames to 45"),
        ("dataset.seed=4", "seed is 3 there and 4 here", "give another path"),
        ("model.width=32", "model.width was 64 and is 32", "run.resume=never"),
        ("train.seed=1", "seed was 0 and is 1", "start anew"),
        ("loader.t_max=50", "t_max was 45 and is 50", "start anew"),
        ("train.batch_frames=96", "blocks per step was 1 and is 2", "start anew"),
        ("loader.draw=length", "'draw': 'video'", "start anew"),
        ("loader=naive", "packer was bload and is naive", "start anew"),
        ("run.resume=nowhere.pt", "no checkpoint nowhere.pt", "give a .pt file"),
    ],
    ids=lambda value: value if "=" in value and " " not in value else "",
)
def test_a_wrong_value_is_told_and_changes_nothing(sentence, line, tmp_path, wrong, thing, way_out):
    before = contents(tmp_path / "runs")
    said = sentence(train, *line(wrong))
    assert thing in said
    assert way_out in said
    assert contents(tmp_path / "runs") == before


def test_nothing_is_forgotten_for_a_run_that_cannot_start(sentence, line, tmp_path):
    before = contents(tmp_path / "runs")
    sentence(train, *line("run.resume=never", "wandb.mode=on"))
    assert contents(tmp_path / "runs") == before


def test_the_option_of_another_loader_is_told_with_those_it_has(sentence, line):
    said = sentence(train, *line("loader=mix", "loader.draw=length"))
    assert "no config key 'loader.draw'" in said
    assert "loader has name, t_max, last, place" in said


def test_a_checkpoint_of_other_videos_is_refused(sentence, line, tmp_path):
    other = replace(WORLD, train_videos=9)
    ensure(tmp_path / "other", progress=False, **asdict(other))
    before = contents(tmp_path / "runs")
    said = sentence(train, *line(f"dataset.root={tmp_path / 'other'}", "dataset.train_videos=9"))
    assert "sequences was 8 and is 9" in said
    assert contents(tmp_path / "runs") == before


class Harm:
    def __reduce__(self):
        return pytest.fail, ("a checkpoint was executed",)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("hello\n"),
        lambda path: path.write_bytes(b"\x80\x02" + bytes(range(256))),
        lambda path: path.write_bytes(pickle.dumps(Harm())),
        lambda path: torch.save({"model": Harm(), "config": {}}, path),
        lambda path: torch.save({"weight": torch.zeros(2)}, path),
        lambda path: torch.save([1, 2], path),
        lambda path: path.mkdir(),
    ],
    ids=["empty", "text", "bytes", "pickle", "code", "other-weights", "list", "folder"],
)
def test_a_file_that_is_no_checkpoint_is_refused(sentence, line, tmp_path, make):
    path = tmp_path / "garbage.pt"
    make(path)
    before = contents(tmp_path / "runs")
    said = sentence(train, *line(f"run.resume={path}"))
    assert str(path) in said
    assert "give" in said
    assert contents(tmp_path / "runs") == before


def test_an_evaluation_refuses_what_is_no_checkpoint(sentence, tmp_path):
    (tmp_path / "garbage.pt").write_text("hello\n")
    said = sentence(evaluation, f"checkpoint={tmp_path / 'garbage.pt'}")
    assert f"{tmp_path / 'garbage.pt'} (6 bytes) cannot be read as a checkpoint" in said


def test_half_a_checkpoint_is_refused_and_left_alone(sentence, line, tmp_path):
    last = tmp_path / "runs" / "here" / "last.pt"
    last.write_bytes(last.read_bytes()[:-1000])
    before = contents(tmp_path / "runs")
    said = sentence(train, *line())
    assert f"{last} (" in said
    assert "run.resume=never" in said
    assert contents(tmp_path / "runs") == before


@pytest.mark.parametrize("there", [False, True], ids=["missing", "empty"])
def test_a_data_root_without_data_is_told(sentence, tmp_path, there):
    root = tmp_path / "nothing"
    if there:
        root.mkdir()
    said = sentence(
        train, "dataset=action_genome", f"dataset.root={root}", f"run.root={tmp_path / 'runs'}"
    )
    assert f"{root} holds no Action Genome" in said
    assert "give the root that has annotations/ and frames/" in said
    assert not (tmp_path / "runs").exists()


def test_a_synthetic_root_is_never_written_over_other_files(sentence, line, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    said = sentence(train, *line(f"dataset.root={tmp_path / 'mine'}"))
    assert f"{tmp_path / 'mine'} exists and is not empty" in said
    assert contents(tmp_path / "mine") == {"thesis.txt": b"dear"}


@pytest.fixture
def broken_root(data_root, tmp_path):
    """A copy of the data with a frame of a training video that `spoil` has been at."""

    def make(spoil) -> tuple[Path, Path]:
        root = tmp_path / "broken"
        shutil.copytree(data_root, root)
        frames = sorted((root / "frames").glob("train*/*.png"))
        for frame in frames:  # every video's, so that any step comes upon one
            spoil(frame)
        return root, frames[0]

    return make


def cut_short(frame: Path) -> None:
    frame.write_bytes(frame.read_bytes()[:-40])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            Path.unlink,
            r"ROOT/frames: missing frames \(174\): train\S+\.png; .* 171 more; .*datasets.prepare",
        ),
        (cut_short, r"frame ROOT/frames/train\d+\.mp4/\d+\.png .*does not decode.*copy it again"),
    ],
    ids=["missing", "cut-short"],
)
def test_frames_that_cannot_be_read_are_told(sentence, line, broken_root, tmp_path, spoil, says):
    last = tmp_path / "runs" / "here" / "last.pt"
    before = last.read_bytes()
    root, _ = broken_root(spoil)
    said = sentence(train, *line(f"dataset.root={root}"))
    assert re.match(says.replace("ROOT", re.escape(str(root))), said)
    assert last.read_bytes() == before


def test_training_that_diverges_is_told(sentence, command_line, tmp_path):
    said = sentence(train, *command_line("train.lr=1e30", "train.warmup_epochs=0"))
    assert "learning rate" in said or "train.lr" in said
    assert not list((tmp_path / "runs").glob("*/last.pt"))


def test_a_gradient_that_is_not_finite_is_told_before_it_is_used(config, monkeypatch):
    weights = []

    def infinite(parameters, _):
        weights.extend(p.detach().clone() for p in parameters)
        return torch.tensor(float("nan"))

    models = []
    build_model = train.build_model
    monkeypatch.setattr(
        train, "build_model", lambda **s: models.append(build_model(**s)) or models[0]
    )
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", infinite)
    with pytest.raises(
        train.InputError, match=r"the gradient is nan in epoch 0, step 0; lower train.lr"
    ):
        train.train(config(), one_rank())
    assert all(torch.equal(a, b) for a, b in zip(models[0].parameters(), weights, strict=True))


@pytest.mark.parametrize("flag", ["-m", "--multirun"])
def test_a_sweep_under_torchrun_is_told_what_to_type(sentence, monkeypatch, flag):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    said = sentence(train, flag, "loader=naive,bload")
    assert f"type python train.py {flag} loader=naive,bload" in said


def test_a_misspelt_key_of_a_sweep_is_told(sentence):
    said = sentence(train, "-m", "loader=naive,bload", "train.epoch=1,2")
    assert said == "there is no config key 'train.epoch'; did you mean train.epochs?"


def test_going_on_from_elsewhere_never_writes_over_a_run(sentence, line, tmp_path):
    (tmp_path / "other").mkdir()
    source = tmp_path / "runs" / "here" / "last.pt"
    shutil.copy(source, tmp_path / "other" / "last.pt")
    before = contents(tmp_path / "runs")
    said = sentence(train, *line(f"run.resume={tmp_path / 'other'}"))
    assert "holds a run already" in said
    assert contents(tmp_path / "runs") == before


def test_options_of_hydra_are_left_to_hydra(monkeypatch, capsys):
    monkeypatch.setenv("HYDRA_MAIN_MODULE", "__main__")
    monkeypatch.setattr(sys, "argv", ["train.py", "--cfg", "job", "train.epochs=7"])
    cli.run(train.main, "train")
    assert "epochs: 7" in capsys.readouterr().out


def test_evaluation_needs_a_checkpoint(sentence):
    assert sentence(evaluation) == "checkpoint is not set; give checkpoint=VALUE"


@pytest.mark.parametrize(
    ("wrong", "thing", "way_out"),
    [
        ("checkpont=x", "'checkpont'", "did you mean checkpoint?"),
        ("dataset.root=x", "'dataset.root'", "did you mean root?"),
        ("split=val", "'val'", "train, test"),
        ("iou=exact", "exact", "inclusive"),
        ("amp=fp16", "'fp16'", "auto, bf16 or off"),
    ],
    ids=lambda value: value if "=" in value else "",
)
def test_a_wrong_value_of_an_evaluation_is_told(sentence, finished, wrong, thing, way_out):
    before = contents(finished)
    given = [] if wrong.startswith("checkpont") else [f"checkpoint={finished}"]
    said = sentence(evaluation, *given, wrong)
    assert thing in said
    assert way_out in said
    assert contents(finished) == before
