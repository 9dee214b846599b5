"""Folders of runs and command lines: a table, a job, or one sentence."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from training.cli import check_overrides

from bload import BlockSampler
from experiments.report import packing
from experiments.report.page import write_report
from tests.experiments.report.made_runs import make_record, make_run
from tests.hostile.conftest import hostile
from tests.hostile.damage import SCALARS, TEXTS, VALUES, damaged
from tests.training.jobs import compose_config
from training.config import TrainJob, register
from training.folder import RunFolder
from training.runs import RUN_FILES, read_epochs, read_runs, write_results

FILES = (*RUN_FILES, "../experiment.json", "../runs.csv", "../curves.csv")
KEYS = st.sampled_from(
    [
        *("run", "state", "says", "name", "jobs", "sweeps", "rows", "loader", "train", "model"),
        *("launch", "with/recall@20", "kind", "epoch", "step", "frames", "=a", "epoch_seconds"),
    ]
)
CSV = b"run,state,says,loader.name,epoch,with/recall@20,epoch_seconds\na,finished,,bload,0,0.5,1\n"


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """An experiment with a whole run."""
    folder = tmp_path_factory.mktemp("good") / "paper_table"
    make_run(folder, "bload", name="run")
    make_record(folder)
    return folder


@st.composite
def spoilt(draw: st.DrawFn, folder: Path) -> dict[str, bytes]:
    """Other contents of up to two of the files of `folder`."""
    made = {}
    for name in draw(st.lists(st.sampled_from(FILES), min_size=1, max_size=2)):
        path = folder / "run" / name
        whole = path.read_bytes() if path.exists() else CSV
        match draw(st.integers(0, 3)):
            case 0:
                made[name] = draw(damaged(whole))
            case 1:
                made[name] = json.dumps(draw(VALUES)).encode()
            case 2:
                values = json.loads(whole.splitlines()[0]) if name.endswith("l") else {}
                if name.endswith("json") and whole is not CSV:
                    values = json.loads(whole)
                values |= draw(st.dictionaries(KEYS, VALUES, max_size=3))
                made[name] = json.dumps(values).encode() + b"\n" + whole * name.endswith("l")
            case _:
                made[name] = draw(
                    st.sampled_from([b"[" * 10**5, b'{"a":' * 10**5, b"\xff\xfe", b""])
                )
    return made


def sampler(ranks: int) -> BlockSampler:
    return BlockSampler([45, 30], rank=0, world_size=ranks)


def reads(folder: Path, config: TrainJob) -> Iterator[Callable[[], object]]:
    """All that is read of a folder of runs."""
    run = RunFolder(str(folder), "run")
    yield from (
        lambda: run.check_same_config(config, sampler(1)),
        lambda: run.checkpoints("auto"),
        lambda: run.checkpoints("x.pt"),
        lambda: run.check_siblings(config, sampler(2)),
        lambda: run.rewind_metrics(1, 0, 1),
        lambda: read_runs(folder),
        lambda: read_epochs(folder),
        lambda: write_results(folder),
        lambda: run.clear(),
    )


@hostile(0.003, few=10)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")
def test_a_run_folder_is_read_or_refused(refused_or, tmp_path_factory, good, data):
    place = tmp_path_factory.getbasetemp() / "spoilt"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(good, place)
    for name, content in data.draw(spoilt(good)).items():
        (place / "run" / name).write_bytes(content)
    for read in reads(place, compose_once()):
        refused_or(read)


@pytest.mark.parametrize("content", ["[[null, null]]", '["ab"]'])
def test_a_config_of_pairs_is_no_object(refused_or, tmp_path, content):
    config = make_run(tmp_path, "bload", name="run") / "config.json"
    config.write_text(content)
    runs = refused_or(read_runs, tmp_path)
    assert "config.json holds no JSON object" in runs.says[0]


@hostile(0.0003, few=3)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")
def test_a_report_is_written_or_refused(refused_or, tmp_path_factory, good, data):
    packing.EPOCHS = 1
    place = tmp_path_factory.getbasetemp() / "reported"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(good, place)
    for name, content in data.draw(spoilt(good)).items():
        (place / "run" / name).write_bytes(content)
    refused_or(write_report, place)


_jobs: list[TrainJob] = []


def compose_once() -> TrainJob:
    if not _jobs:
        _jobs.append(compose_config("train", []))
    return _jobs[0]


LINES = st.sampled_from(
    [
        *(
            "train.epochs",
            "train.lr",
            "train.seed",
            "train.workers",
            "train.batch_frames",
            "loader",
        ),
        *("loader.t_max", "model", "model.width", "model.heads", "model.dropout", "dataset"),
        *(
            "dataset.root",
            "dataset.frame_size",
            "dataset.augment",
            "dataset.augment.flip",
            "run.name",
        ),
        *("run.resume", "run.root", "wandb.mode", "launch.nproc", "+x", "~train", "++train.lr"),
        *("hydra.run.dir", "experiment", "recipe", "loss", "train.slots", "train.timeout", ""),
    ]
)
TYPED = st.one_of(
    TEXTS,
    SCALARS.map(str),
    st.sampled_from(
        [
            *(
                "null",
                "[1,2]",
                "[1,-2]",
                "[" * 300,
                "{a:1}",
                "${train.lr}",
                "${oc.env:NONE}",
                "???",
            ),
            *(
                "${train.epochs}",
                "${x}",
                "${",
                "'",
                '"',
                "1,2",
                "range(3)",
                "choice(1,2)",
                "glob(*)",
            ),
            *("int(1)", "${oc.decode:'1'}", "1e400", "-inf", "läuft", "a=b", "@b", "[[1]]", "true"),
        ]
    ),
)


@hostile(0.003, few=10)
@given(lines=st.lists(st.builds("{}={}".format, LINES, TYPED) | TEXTS, min_size=1, max_size=2))
@example(lines=["run.name='../../x'"])
@example(lines=["run.name=/etc/passwd"])
@example(lines=["loader=[0]"])
def test_a_command_line_is_a_job_or_refused(refused_or, tmp_path, lines):
    register()
    job = refused_or(check_overrides, "train", lines)
    assert job is None or isinstance(job, TrainJob)
    if job is not None and job.run.name is not None:
        assert (tmp_path / job.run.name).resolve().parent == tmp_path
