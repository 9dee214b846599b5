"""An evaluation clears states as training did, and gives the recall of what needs memory."""

from unittest import mock

import pytest

import train
from tests.training.jobs import evaluate, one_rank, only_run, overrides
from training.ablations import Ablation
from training.compose import compose_job


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
