"""An interrupted run goes on as if nothing had happened; a finished one is left alone."""

import json
import shutil
from copy import deepcopy
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

import train
from bload import InputError
from experiments.runs import read_curves
from tests.training.jobs import (
    assert_same_run,
    assert_same_state,
    checkpoint,
    contents,
    metrics,
    one_rank,
    only_run,
    open_and_leave,
    overrides,
    train_until,
)
from training import graph
from training import run as runs
from training.checkpoint import load_model
from training.compose import compose_job
from training.folder import RunFolder

OFTEN = ("train.eval_every=1", "train.checkpoint_minutes=2", "train.log_every=1")


@pytest.fixture(autouse=True)
def minutes(monkeypatch):
    """A clock that is a minute later each time it is read: a checkpoint every other step."""
    clock = SimpleNamespace(monotonic=count(0, 60).__next__, asctime=str)
    monkeypatch.setattr(runs, "time", clock)


@pytest.fixture(scope="module")
def whole_run(data_root, tmp_path_factory):
    """The folder of a run that nobody interrupted; of the same options, the same one."""

    @cache
    def of(*options):
        runs = tmp_path_factory.mktemp("whole")
        train.train(compose_job("train", overrides(data_root, runs, *options)), one_rank())
        return only_run(runs)

    return of


@pytest.fixture
def stopped(config, tmp_path, half_run):
    """A run that was stopped before step 3 of its second epoch, to go on with."""
    shutil.copytree(half_run(), tmp_path / "runs")
    return only_run(tmp_path / "runs")


@pytest.fixture(scope="module")
def half_run(data_root, tmp_path_factory):
    @cache
    def run():
        runs = tmp_path_factory.mktemp("half")
        train_until(one_rank(), compose_job("train", overrides(data_root, runs, *OFTEN)), (1, 3))
        return runs

    return run


def train_in_two_goes(config, at):
    train_until(one_rank(), config, at)
    train.train(config, one_rank())


@pytest.mark.parametrize(
    "options",
    [
        (
            *("train.workers=1", "model.dropout=0.3", "train.micro_batches=2", "loader=naive"),
            *("loader.balance=pairs", "loader.cost={slot:0,frame:1}"),
        ),
        ("loader.long=carry", "loader.t_max=10", "train.batch_slots=30", "train.ema=0.9"),
        ("train.cuda_graph=auto", "model.dropout=0.3", "train.ema=0.9"),
    ],
    ids=["a-worker-dropout-batches-and-pairs", "carry-and-average", "recorded"],
)
def test_an_interrupted_run_ends_as_a_whole_one(config, tmp_path, whole_run, options, monkeypatch):
    monkeypatch.setattr(graph, "DEVICE", "cpu")  # for train.cuda_graph alone
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", lambda core, inputs: core)
    # Step 3 of the second epoch: step 2 was trained after the last checkpoint, and is lost.
    train_in_two_goes(config(*OFTEN, *options), at=(1, 3))
    whole, halves = whole_run(*OFTEN, *options), only_run(tmp_path / "runs")
    assert whole.name == halves.name
    assert_same_run(whole, halves)
    assert [line["epoch"] for line in metrics(whole) if line["kind"] == "eval"] == [1, 2]


def test_a_run_may_be_interrupted_anywhere(config, tmp_path, whole_run):
    job = config(*OFTEN)
    for at in ((0, 1), (1, 0)):  # before a checkpoint, between epochs
        train_until(one_rank(), job, at)
    for name in ("evaluate", "run_summary"):  # while it reports
        with (
            mock.patch.object(runs, name, side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            train.train(job, one_rank())
    train.train(job, one_rank())
    assert_same_run(whole_run(*OFTEN), only_run(tmp_path / "runs"))


def test_resume_never_trains_anew(config, tmp_path):
    train.train(config("train.epochs=1"), one_rank())
    folder = only_run(tmp_path / "runs")
    first = checkpoint(folder)["model"]
    lines = metrics(folder)
    with mock.patch.object(runs, "train_step", wraps=runs.train_step) as steps:
        train.train(config("train.epochs=1", "run.resume=never"), one_rank())
    assert steps.call_args_list[0].args[2][:2] == (0, 0)
    assert steps.call_count == lines[0]["steps"]
    torch.testing.assert_close(checkpoint(folder)["model"], first, rtol=0, atol=0)
    assert metrics(folder) == lines


def test_an_average_of_the_weights_is_kept_and_evaluated(config, tmp_path):
    with mock.patch.object(runs, "evaluate", wraps=runs.evaluate) as evaluated:
        train.train(config("train.ema=0.9", "train.epochs=1"), one_rank())
    folder = only_run(tmp_path / "runs")
    saved = checkpoint(folder)
    last, average = saved["model"], saved["average"]
    assert any(not torch.equal(average[f"module.{name}"], last[name]) for name in last)
    model, _ = load_model(folder / "last.pt", torch.device("cpu"))
    for measured in (model, evaluated.call_args.args[0]):
        values = measured.state_dict().items()
        assert all(torch.equal(value, average[f"module.{name}"]) for name, value in values)


def test_evaluations_come_every_k_epochs_and_at_the_end(config):
    figures = {"with/recall@20": 0.5}, None
    with (
        mock.patch.object(runs, "evaluate", return_value=figures) as evaluated,
        mock.patch.object(runs.Run, "finish"),
    ):
        job = ("loader=mix", "train.batch_slots=200", "train.epochs=3", "train.eval_every=2")
        train.train(config(*job), one_rank())
        assert evaluated.call_count == 2
    folder = only_run(Path(config().run.root))
    lines = [line for line in metrics(folder) if line["kind"] == "eval"]
    assert [(line["epoch"], line["after"]) for line in lines] == [(2, 2), (3, 3)]


def test_figures_are_of_the_last_weights_on_final_videos_and_best_is_chosen_on_validation(
    config, tmp_path
):
    evaluate, recalls, splits = runs.evaluate, iter((0.5, 0.3, 0.2)), []

    def score(model, source, *more, **options):
        splits.append(source.split)
        figures, meter = evaluate(model, source, *more, **options)
        return {**figures, "with/recall@20": next(recalls)}, meter

    with mock.patch.object(runs, "evaluate", score):
        summary = train.train(config("train.eval_every=1"), one_rank())
    assert splits == ["validation", "validation", "final"]
    assert (summary["split"], summary["eval_frames"], summary["with/recall@20"]) == (
        "final",
        61,
        0.2,
    )
    assert (summary["validation_recall@20"], summary["best_validation_recall@20"]) == (0.3, 0.5)
    folder = only_run(tmp_path / "runs")
    best, last = (torch.load(folder / name, weights_only=True) for name in ("best.pt", "last.pt"))
    assert (best["epoch"], last["epoch"]) == (1, 2)


INSIDE = ("train.eval_every=0.333", "train.checkpoint_minutes=2", "train.log_every=1")


def test_evaluations_inside_epochs_change_nothing_of_the_training(whole_run):
    plain, inside = whole_run(*OFTEN), whole_run(*INSIDE)
    assert_same_state(checkpoint(plain)["model"], checkpoint(inside)["model"])
    lines = metrics(inside)
    for kind in ("step", "epoch"):
        mine, plains = (
            [one for one in of if one["kind"] == kind] for of in (lines, metrics(plain))
        )
        assert mine == plains
    steps = [line["steps"] for line in lines if line["kind"] == "epoch"]
    marks = [-(-steps[0] * part // 3) for part in (1, 2)]
    found = [(line["epoch"], line["step"]) for line in lines if line["kind"] == "eval"]
    assert found == [(epoch + 1, at) for epoch in (0, 1) for at in (*marks, steps[epoch])]
    read = read_curves(inside.parent)
    assert list(read.epoch) == pytest.approx(
        [epoch + at / steps[epoch] for epoch in (0, 1) for at in (*marks, steps[epoch])]
    )
    assert read.recall.notna().all()
    assert read.processed[0] == pytest.approx(read.processed[2] * marks[0] / steps[0])
    assert read.processed.is_monotonic_increasing


def test_a_run_with_evaluations_inside_epochs_resumes(config, tmp_path, whole_run):
    train_in_two_goes(config(*INSIDE), at=(1, 1))
    assert_same_run(whole_run(*INSIDE), only_run(tmp_path / "runs"))


def test_loaders_may_train_on_as_many_slots_and_an_interrupted_run_ends_alike(config, tmp_path):
    epochs = {}
    for loader in ("bload", "sampling"):
        job = config(f"loader={loader}", "train.slots=400", "train.epochs=7", runs=loader)
        given = deepcopy(job)
        if loader == "bload":
            train_in_two_goes(job, at=(1, 1))
        else:
            train.train(job, one_rank())
        assert job == given
        folder = only_run(tmp_path / loader)
        figures = json.loads((folder / "summary.json").read_text())
        epochs[loader] = figures["epochs"]
        assert abs(figures["epochs"] * figures["processed"] - 400) <= figures["processed"] / 2
        done = [line["epoch"] for line in metrics(folder) if line["kind"] == "epoch"]
        assert done == [*range(1, figures["epochs"] + 1)]
    assert epochs == {"bload": 2, "sampling": 3}


@pytest.mark.parametrize("how", ["damaged", "removed"])
def test_without_its_last_checkpoint_a_run_goes_on_from_the_one_before(
    config, stopped, whole_run, capsys, how
):
    last, previous = stopped / "last.pt", stopped / "previous.pt"
    contents = bytearray(last.read_bytes())
    last.unlink()
    if how == "damaged":
        contents[len(contents) // 2] ^= 1
        last.write_bytes(contents)
    whole = previous.read_bytes()
    open_and_leave(config(*OFTEN))
    said = capsys.readouterr().out
    assert last.read_bytes() == whole  # the next one is saved beside it
    assert ("last.pt" in said.partition("going on from")[0]) == (how == "damaged")
    assert f"going on from {previous}" in said
    if how == "damaged":
        train.train(config(*OFTEN), one_rank())
        assert_same_run(whole_run(*OFTEN), stopped)


def test_without_any_checkpoint_nothing_is_deleted(config, stopped, tmp_path):
    saved = checkpoint(stopped)
    assert (saved["loader"]["epoch"], saved["loader"]["step"]) == (1, 2)
    assert metrics(stopped)[-1]["step"] == 3  # in the middle of an epoch
    assert not (stopped / "summary.json").exists()
    for name in ("last.pt", "previous.pt"):
        (stopped / name).unlink()
    before = contents(stopped)
    with pytest.raises(InputError, match=r"best.pt and metrics"):
        train.train(config(*OFTEN), one_rank())
    assert contents(stopped) == before
    begun = RunFolder(tmp_path / "begun")
    begun.path.mkdir()
    begun.metrics.touch()  # killed before the first checkpoint
    assert begun.checkpoints("auto") == []
