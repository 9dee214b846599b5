"""model.checkpoint: what auto decides, and that no choice makes another model."""

import json

import pytest
import torch

import train
from experiments import recompute as recompute_module
from experiments.checkpoint import check_same_model, load_checkpoint, save_checkpoint
from experiments.config import NOT_COMPUTED, without
from experiments.memory import free_memory
from experiments.recompute import recompute
from experiments.run_folder import run_name
from tests.experiments.jobs import interrupted, one_rank, only_run

SIZES = {
    **{"width": 16, "heads": 2, "feedforward": 24, "encoder_layers": 1, "decoder_layers": 1},
    **{"temporal_layers": 1, "queries": 5, "dropout": 0.0, "backbone": "conv"},
}


def decide(choice, frames=64):
    return recompute(choice, SIZES, [32, 32], frames // 4, 4, "off", one_rank())


@pytest.mark.parametrize(("room", "decision"), [(1, True), (2**40, False)])
def test_auto_recomputes_where_a_step_does_not_fit_and_says_why(
    room, decision, monkeypatch, capsys
):
    monkeypatch.setattr(recompute_module, "free_memory", lambda _: room)
    assert decide("auto") is decision
    (line,) = capsys.readouterr().out.splitlines()
    assert "a step of 64 frames takes about" in line
    assert ("recomputing them" in line) is decision
    assert f"{0.8 * room / 2**30:.1f} GiB" in line


def test_auto_counts_frames(monkeypatch):
    """Between a short and a long step lies a size at which the decision changes."""
    monkeypatch.setattr(recompute_module, "free_memory", lambda _: 40 << 20)
    assert [decide("auto", frames) for frames in (8, 2000)] == [False, True]


def test_a_fixed_choice_is_silent(capsys):
    assert (decide("none"), decide("backbone")) == (False, True)
    assert not capsys.readouterr().out


def test_free_memory_is_shared_by_the_ranks_of_a_machine(monkeypatch):
    alone = free_memory(torch.device("cpu"))
    assert 2**26 < alone < 2**44
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert free_memory(torch.device("cpu")) == pytest.approx(alone / 4, rel=0.3)


def test_the_choice_does_not_name_the_run_but_weights_do(config):
    names = {
        run_name(config(f"model.checkpoint={choice}"), 1) for choice in ("none", "backbone", "auto")
    }
    assert len(names) == 1
    assert run_name(config("model.weights=resnet18"), 1) not in names


def test_checkpoints_without_the_keys_are_of_the_same_model(config, finished):
    job = config("model.checkpoint=auto", "model.weights=resnet18")["model"]
    saved = load_checkpoint(finished)["config"]["model"]
    old = without(saved, *NOT_COMPUTED)
    assert old != saved
    check_same_model(old, job, "last.pt")
    check_same_model(saved, job, "last.pt")


def test_a_run_from_before_the_keys_goes_on(config, tmp_path, capsys):
    job = config("run.name=old", "train.epochs=1", "train.checkpoint_every=1")
    with interrupted((0, 1)), pytest.raises(KeyboardInterrupt):
        train.train(job, one_rank())
    folder = only_run(tmp_path / "runs")
    # As it was written before: without the keys in the checkpoint and in config.json.
    saved = load_checkpoint(folder)
    saved["config"]["model"] = without(saved["config"]["model"], *NOT_COMPUTED)
    save_checkpoint(folder / "last.pt", saved)
    (folder / "config.json").write_text(json.dumps(saved["config"]))
    capsys.readouterr()
    train.train({**job, "model": {**job["model"], "checkpoint": "backbone"}}, one_rank())
    assert "going on from" in capsys.readouterr().out
    assert (folder / "summary.json").exists()
