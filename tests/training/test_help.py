"""A command line is checked, and explained, before anything slow is imported."""

import re
import signal
import subprocess
import sys
from dataclasses import fields, is_dataclass
from typing import get_type_hints

import pytest
from training.help import meanings

import train
from bload import PACKERS
from datasets.build import DATASETS
from datasets.config import AugmentConfig
from tests.training.jobs import REPOSITORY
from training import cli
from training.config import EvalJob, TrainJob
from training.loader_config import loader_schema

SLOW = {"torch", "torchvision", "scipy", "wandb", "matplotlib", "pandas"}


def schemas():
    """Every class of a config."""
    yield from (TrainJob, EvalJob, AugmentConfig)
    yield from (loader_schema(packer) for packer in PACKERS)
    yield from (schema for schema, _ in DATASETS.values())
    hints = get_type_hints(TrainJob).values()
    yield from (hint for hint in hints if is_dataclass(hint))


def test_every_key_has_a_meaning():
    for schema in schemas():
        found = meanings(schema)
        assert [*found] == [one.name for one in fields(schema)]
        assert all(found.values()), (schema, [key for key, says in found.items() if not says])
        assert not re.search(r"\bsee \w+\.py", " ".join(found.values())), schema


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        ("train.py trian.lr=3", 2, "did you mean train.lr?"),
        ("train.py train.lr=fast", 2, "train.lr is 'fast'; give a number"),
        ("train.py -m loader=naive,blod", 2, "bload_exact"),
        ("train.py --help", 0, "--help GROUP"),
        ("train.py --hlep", 2, "train.py: error: there is no option '--hlep'; did you mean --help"),
        ("train.py model.weights=no.pth", 2, "there is no file no.pth; "),
        ("train.py launch.nproc=2 model.weights=no.pth", 2, "there is no file no.pth; "),
        ("train.py run.resume=no.pt", 2, "there is no checkpoint no.pt; "),
        ("train.py dataset.root={run}", 2, "holds annotations that are not synthetic"),
        ("eval.py", 2, "give checkpoint=runs/NAME"),
        ("eval.py --help", 0, "checkpoint=NEEDED"),
        ("eval.py checkpoint=nowhere", 2, "there is no checkpoint nowhere"),
        ("eval.py checkpoint={run}/annotations", 2, "there is no checkpoint {run}/annotations"),
        ("eval.py checkpoint={run}/report.html", 2, "give the run, checkpoint={run}\n"),
        ("eval.py checkpoint=. video=no.mp4 out=x", 2, "there is no no.mp4"),
        ("-m experiments.doctor --help", 0, "--seconds"),
        ("-m experiments.doctor trian.lr=3", 2, "did you mean train.lr?"),
    ],
)
def test_a_command_line_is_checked_before_slow_imports(line, status, says, tmp_path):
    (tmp_path / "annotations").mkdir()
    for name in ("last.pt", "report.html"):
        (tmp_path / name).touch()
    script, *arguments = line.format(run=tmp_path).split()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", script, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == status
    imported = {one.rpartition("|")[2].strip() for one in done.stderr.splitlines()}
    assert "training.config" in imported
    assert not imported & SLOW
    assert says.format(run=tmp_path) in done.stdout + done.stderr


@pytest.mark.parametrize("gone", ["model.weights=no.pth", "run.resume=no.pt"])
def test_a_run_that_has_begun_may_need_what_it_began_with_no_more(monkeypatch, tmp_path, gone):
    (tmp_path / "here").mkdir()
    line = [f"run.root={tmp_path}", "run.name=here", gone]
    monkeypatch.setattr(sys, "argv", ["train.py", *line])
    jobs = []
    cli.run(jobs.append, "train")
    assert jobs[0].run.name == "here"


@pytest.mark.parametrize("line", ["--help", "--cfg job"])
def test_help_that_is_not_read_to_its_end_ends_without_a_word(line):
    process = subprocess.Popen(
        [sys.executable, "train.py", *line.split()],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 128 + signal.SIGPIPE


@pytest.fixture
def printed(monkeypatch, capsys):
    """What the help of train.py with some arguments prints."""

    def type_and_read(*arguments):
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        cli.run(pytest.fail, "train")
        return capsys.readouterr().out

    return type_and_read


def test_help_lists_groups_and_what_to_choose(printed):
    lines = printed("--help").splitlines()
    (loader,) = (number for number, line in enumerate(lines) if line.startswith("  loader=bload "))
    assert "bload_exact" in lines[loader]
    assert any(line.startswith("  wandb.KEY=VALUE ") for line in lines)
    assert "paper_table[_quick]" in "".join(lines)
    assert not any("_schema" in line or "_base" in line for line in lines)
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_help_of_a_group_explains_its_keys_with_the_values_of_the_line(printed):
    for arguments in (("--help", "train", "train.lr=0.5"), ("train.lr=0.5", "--help=train")):
        text = printed(*arguments)
        assert "train.lr=0.5 " in text
        for key, says in meanings(get_type_hints(TrainJob)["train"]).items():
            assert f"  train.{key}=" in text
            assert says.split()[0] in text
    text = printed("--help", "loader", "loader=sampling")
    assert "loader.clips=one" in text
    assert "loader=single" in text
    assert "dataset.augment.flip=0.0" in printed("--help", "dataset")


def test_help_of_every_group_fits_a_screen(printed):
    for group in ("recipe", "adamw", *(one.name for one in fields(TrainJob))):
        lines = printed("--help", group).splitlines()
        assert len(lines) <= 40, group
        assert max(map(len, lines)) <= 100, group


def test_help_for_what_is_not_there_says_what_is(sentence):
    assert "loader, dataset" in sentence(train, "--help", "trian")
    assert "train.epochs?" in sentence(train, "--help", "train.epoch=3")
