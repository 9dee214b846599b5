"""model.recompute: what auto decides, and that no choice makes another run."""

import mmap
from types import SimpleNamespace

import pytest
import torch

from models.cost import Affine, NetworkCost
from tests.training.jobs import one_rank
from training.memory import free_memory, taken_memory
from training.ranks import Ranks
from training.sidings import recompute
from training.sidings.recompute import choose

MIB = 2**20
COST = NetworkCost(
    *({}, {}, {}, {"encoder": Affine(0, MIB)}, Affine(0, 0)),
    *(0, 0),  # bytes of parameters
)


def sampler_of(blocks):
    return SimpleNamespace(blocks_per_batch=blocks, plan=SimpleNamespace(t_max=4))


def decide(config, choice, blocks=16, *more):
    cfg = config(f"model.recompute={choice}", *more)
    return choose(cfg, one_rank(), sampler_of(blocks))


@pytest.fixture
def measured(monkeypatch):
    """What `measure_cost` has been asked for; a frame costs 1 MiB, 100 are free."""
    asked = []

    def measure(cfg, frame_size, slots, precision, device):
        asked.append((cfg.temporal, frame_size, slots, device.type))
        return COST

    monkeypatch.setattr(recompute, "measure_cost", measure)
    monkeypatch.setattr(recompute, "free_memory", lambda _: 100 * MIB)
    monkeypatch.setattr(recompute, "MEMORY_SHARES", {"cpu": 0.8})
    return asked


def test_auto_recomputes_what_does_not_fit_and_says_why(config, measured, capsys):
    for blocks, frames, share in ((20, 80, 0), (25, 100, 0.2)):
        assert decide(config, "auto", blocks) == share
        (line,) = capsys.readouterr().out.splitlines()
        for figure in (f"{share:.0%} of the pictures", f"{frames} frames", "0.1 GiB (80%"):
            assert figure in line
    job = config()
    assert measured == [(job.model.temporal, tuple(job.dataset.frame_size), 4, "cpu")] * 2


def test_all_ranks_recompute_what_the_one_with_the_least_room_must(config, measured, monkeypatch):
    ranks = one_rank()
    monkeypatch.setattr(Ranks, "gather", lambda _, value: [0.5, value])
    for frames, share in ((100, 0.5), (400, 0.8)):
        cfg = config("model.recompute=auto")
        assert choose(cfg, ranks, sampler_of(frames // 4)) == share


def test_free_memory_is_shared_by_the_ranks_of_a_machine(monkeypatch):
    alone = free_memory(torch.device("cpu"))
    assert 2**26 < alone < 2**44
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert free_memory(torch.device("cpu")) == pytest.approx(alone / 4, rel=0.3)


def test_taken_memory_grows_with_what_is_taken():
    before = taken_memory(torch.device("cpu"))
    pages = torch.frombuffer(mmap.mmap(-1, 64 * MIB), dtype=torch.uint8).fill_(1)
    assert taken_memory(torch.device("cpu")) - before == pytest.approx(pages.nbytes, rel=0.1)
