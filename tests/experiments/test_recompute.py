"""model.checkpoint: what auto decides, and that no choice makes another run."""

import pytest
import torch

from experiments import memory
from experiments.memory import free_memory, recompute
from models.cost import Affine, Cost
from tests.experiments.jobs import one_rank

KEPT = {"encoder": Affine(0, 2**20)}


def decide(config, choice, blocks=16):
    return recompute(config(f"model.checkpoint={choice}"), blocks, 4, one_rank())


def test_auto_recomputes_where_a_step_does_not_fit_and_says_why(config, monkeypatch, capsys):
    measured = []

    def measure(cfg, frame_size, slots, precision, device):
        measured.append((cfg.temporal, frame_size, slots, device.type))
        return Cost({}, {}, {}, KEPT, Affine(0, 0), parameter_bytes=0, trainable_bytes=0)

    monkeypatch.setattr(memory, "measure_cost", measure)
    monkeypatch.setattr(memory, "free_memory", lambda _: 100 * 2**20)
    for blocks, decision, word in ((16, False, "keeping"), (21, True, "recomputing")):
        assert decide(config, "auto", blocks) is decision
        (line,) = capsys.readouterr().out.splitlines()
        for figure in (f"{word} them", f"{4 * blocks} frames", "0.1 GiB (80%"):
            assert figure in line
    job = config()
    assert measured == [(job.model.temporal, tuple(job.dataset.frame_size), 4, "cpu")] * 2


def test_a_fixed_choice_is_silent(config, capsys):
    assert (decide(config, "none"), decide(config, "backbone")) == (False, True)
    assert not capsys.readouterr().out


def test_free_memory_is_shared_by_the_ranks_of_a_machine(monkeypatch):
    alone = free_memory(torch.device("cpu"))
    assert 2**26 < alone < 2**44
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert free_memory(torch.device("cpu")) == pytest.approx(alone / 4, rel=0.3)
