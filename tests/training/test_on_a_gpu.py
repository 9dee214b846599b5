"""Training on a card: losses as on the CPU, waits, the same bits twice, DDP over NCCL."""

import os
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

import train
from tests.training.jobs import REPOSITORY, assert_same_run, one_rank, only_run
from training.build import in_parallel
from training.ranks import Ranks
from training.step import train_step

pytestmark = pytest.mark.gpu
OPTIONS = ("model.dropout=0", "train.batch_slots=128")


def on_a_gpu():
    return Ranks(0, 1, torch.device("cuda", 0))


def steps_of(cfg, ranks, count, change=lambda training: training):
    """Loss and gradient norm of the first steps of an epoch."""
    data = train.open_data(cfg, ranks)
    training, found = change(train.open_training(cfg, ranks, data)), []
    for number, batches in zip(range(count), data.loader.by_step(), strict=False):
        step = train_step(training, batches, 0, number, data.loader.steps)
        found.append((step.losses["loss"], step.norm))
    return found


@pytest.mark.parametrize("temporal", ["dds", "gru", "attention", "scan", "none"])
def test_losses_are_those_of_the_cpu(config, temporal):
    cfg = config(*OPTIONS, f"model.temporal={temporal}", "train.amp=off")
    (mine, *_), (theirs, *_) = steps_of(cfg, on_a_gpu(), 1), steps_of(cfg, one_rank(), 1)
    assert mine == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize("amp", ["auto", "off"])
def test_a_step_waits_for_the_matcher_and_for_the_losses(config, amp):
    cfg = config(f"train.amp={amp}")
    data = train.open_data(cfg, on_a_gpu())
    training = train.open_training(cfg, on_a_gpu(), data)
    batches = data.loader.by_step()
    train_step(training, next(batches), 0, 0, 9)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as waits:
            warnings.simplefilter("always")
            train_step(training, next(batches), 0, 1, 9)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(waits) == 2, [str(one.message) for one in waits]


def test_a_gradient_averaged_over_nccl_is_that_of_one_rank(config, tmp_path):
    cfg = config(*OPTIONS, "train.amp=off")
    alone = steps_of(cfg, on_a_gpu(), 2)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl", f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    try:
        wrapped = steps_of(cfg, on_a_gpu(), 2, in_ddp)
    finally:
        dist.destroy_process_group()
    for mine, theirs in zip(wrapped, alone, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3)


def in_ddp(training):
    return replace(training, parallel=in_parallel(training.model, training.ranks))


def test_a_deterministic_run_has_the_same_bits_twice_and_resumed(command_line, tmp_path):
    options = ("train.deterministic=true", "train.log_every=1", "model.dropout=0.3")
    for runs in ("one", "other"):
        line = command_line(*options, "train.device=cuda", runs=runs)
        command = [sys.executable, "train.py", *line]
        around = {**os.environ, "TQDM_DISABLE": "1"}
        done = subprocess.run(command, cwd=REPOSITORY, env=around, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert_same_run(only_run(tmp_path / "one"), only_run(tmp_path / "other"))
