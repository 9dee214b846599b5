"""Recall on memory-dependent triplets, what it is held against, and states cleared elsewhere."""

from unittest import mock

import pytest

import train
from datasets.synthetic.world import World
from datasets.synthetic.yardsticks import make_yardsticks
from tests.training.jobs import evaluate, one_rank, only_run, overrides
from tests.training.test_evaluate import recall, seer_and_source
from training.ablations import Ablation
from training.compose import compose_job


@pytest.fixture(scope="module")
def seen(small_job):
    return seer_and_source(small_job)


@pytest.fixture(scope="module")
def plain(seen):
    """What is measured without yardsticks and ablations."""
    return recall(*seen)


def test_yardsticks_add_figures_and_change_none(seen, plain, small_job):
    seer, source = seen
    yardsticks = make_yardsticks(source, World(**small_job.dataset.knobs))
    figures = recall(seer, source, yardsticks=yardsticks)
    assert {name: figures[name] for name in plain} == plain
    observers = (f"{one}/recall@20" for one in ("memoryless", "remembering"))
    assert {name for name in figures if name not in plain} == {
        *(name + "_memory" for name in plain if "/recall@" in name),
        *(name + end for name in observers for end in ("", "_memory")),
    }
    assert 0 < figures["with/recall@20_memory"] < 1
    assert figures["with/recall@20_memory"] != figures["with/recall@20"]


@pytest.fixture(scope="module")
def ignoring(data_root, tmp_path_factory):
    """The folder of a run like `finished` but for its starts."""
    runs = tmp_path_factory.mktemp("ignoring")
    lines = ("train.epochs=1", "train.log_every=1", "train.starts=ignored")
    with mock.patch("training.report.page.write_or_warn"):
        train.train(compose_job("train", overrides(data_root, runs, *lines)), one_rank())
    return only_run(runs)


@pytest.mark.parametrize("starts", [None, "table", "wrong"])
def test_evaluation_clears_states_as_in_training_unless_asked(
    ignoring, starts, capsys, monkeypatch
):
    used, change = [], Ablation.__call__
    monkeypatch.setattr(
        Ablation, "__call__", lambda how, batch: (used.append(how), change(how, batch))[1]
    )
    lines = [f"starts={starts}"] if starts else []
    evaluate(f"checkpoint={ignoring}", "batch_slots=64", *lines)
    wanted = starts or "ignored"
    assert {*used} == {Ablation(wanted)}
    assert "needs memory: " in capsys.readouterr().out
