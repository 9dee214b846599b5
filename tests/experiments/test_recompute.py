"""model.checkpoint: what auto decides, and that no choice makes another run."""

import pytest
import torch

from experiments import recompute as recompute_module
from experiments.memory import free_memory
from experiments.recompute import recompute
from experiments.run_folder import run_name
from tests.experiments.jobs import one_rank


def decide(config, choice, blocks=16):
    return recompute(config(f"model.checkpoint={choice}"), blocks, 4, one_rank())


def test_auto_recomputes_where_a_step_does_not_fit_and_says_why(config, monkeypatch, capsys):
    for room, decision, word in ((1, True, "recomputing"), (2**40, False, "keeping")):
        monkeypatch.setattr(recompute_module, "free_memory", lambda _, room=room: room)
        assert decide(config, "auto") is decision
        (line,) = capsys.readouterr().out.splitlines()
        assert f"{word} them" in line
        assert "64 frames" in line
        assert f"{0.8 * room / 2**30:.1f} GiB" in line


def test_auto_counts_frames(config, monkeypatch):
    """Between a short and a long step lies a size at which the decision changes."""
    monkeypatch.setattr(recompute_module, "free_memory", lambda _: 100 << 20)
    assert [decide(config, "auto", blocks) for blocks in (2, 2000)] == [False, True]


def test_a_fixed_choice_is_silent(config, capsys):
    assert (decide(config, "none"), decide(config, "backbone")) == (False, True)
    assert not capsys.readouterr().out


def test_free_memory_is_shared_by_the_ranks_of_a_machine(monkeypatch):
    alone = free_memory(torch.device("cpu"))
    assert 2**26 < alone < 2**44
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert free_memory(torch.device("cpu")) == pytest.approx(alone / 4, rel=0.3)


def test_the_choice_does_not_name_the_run_but_weights_do(config):
    choices = ("none", "backbone", "auto")
    names = {run_name(config(f"model.checkpoint={choice}"), 1) for choice in choices}
    assert len(names) == 1
    assert run_name(config("model.weights=resnet18"), 1) not in names
