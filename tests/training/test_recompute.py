"""What a rank has of its machine, and what model.recompute=auto makes of it."""

import os

import pytest
import torch

from bload import BlockSampler
from models.cost import NetworkCost
from tests.training.jobs import one_rank
from training import build
from training.ranks import Ranks, count_cores, free_memory

MIB = 2**20


def decide(cfg, frames, packer):
    sampler = BlockSampler([4] * 100, packer, batch_slots=frames)
    return build.choose_recomputed(cfg, one_rank(), sampler)


@pytest.fixture
def job(config, monkeypatch):
    """A job on a machine where a frame costs 1 MiB and 100 are free."""
    job = config("model.recompute=auto")

    def measure(cfg, frame_size, shape_BT, precision, device, with_flops):
        asked = cfg.temporal, frame_size, device.type
        assert asked == (job.model.temporal, tuple(job.dataset.frame_size), "cpu")
        frames = shape_BT[0] * shape_BT[1]
        return NetworkCost(0, 0, frames, frames * MIB, frames * MIB)

    monkeypatch.setattr("models.cost.measure_cost", measure)
    monkeypatch.setattr(build, "free_memory", lambda _: 100 * MIB)
    monkeypatch.setattr(build, "MEMORY_SHARES", {"cpu": 0.8})
    return job


def test_auto_recomputes_what_does_not_fit_and_says_why(job, capsys):
    for frames, share, packer in ((80, 0, "bload"), (100, 0.2, "bload"), (100, 0.2, "ragged")):
        assert decide(job, frames, packer) == share
        said = capsys.readouterr().out
        for figure in (f"{share:.0%} of the pictures", f"{frames} frames", "0.1 GiB are there"):
            assert figure in said


def test_all_ranks_recompute_what_the_one_with_the_least_room_must(job, monkeypatch):
    monkeypatch.setattr(Ranks, "gather", lambda _, value: [0.5, value])
    assert (decide(job, 100, "bload"), decide(job, 400, "bload")) == (0.5, 0.8)


def test_memory_is_what_a_container_may_still_take(monkeypatch, tmp_path):
    monkeypatch.setattr("training.ranks.CGROUP", tmp_path)
    (tmp_path / "memory.current").write_text(f"{3 * MIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon {MIB}\ninactive_file {2 * MIB}\n")
    (tmp_path / "memory.max").write_text(f"{4 * MIB}\n")
    assert free_memory(torch.device("cpu")) == 3 * MIB  # files in memory make room
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(torch.device("cpu")) > 3 * MIB


def test_cores_are_a_ranks_share_of_what_the_container_has(monkeypatch, tmp_path):
    monkeypatch.setattr("training.ranks.CGROUP", tmp_path)
    for cores, ranks, share in ((64, 8, 8), (12, 4, 3), (2, 4, 1), (2, 1, 2)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: range(cores))
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
        assert count_cores() == share
    for quota, share in (("50000 100000", 1), ("max 100000", 2), ("150000 100000", 1)):
        (tmp_path / "cpu.max").write_text(quota)
        assert count_cores() == share
