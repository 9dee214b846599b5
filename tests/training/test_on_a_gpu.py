"""What only a card can show of training: losses as on the CPU, and what a step waits for."""

import pytest
import torch

from tests.training.jobs import one_rank
from training.build import open_training
from training.data import open_data
from training.ranks import Ranks
from training.step import Position, train_step

pytestmark = pytest.mark.gpu
GPU = Ranks(0, 1, torch.device("cuda", 0))


def take_steps(cfg, ranks):
    data = open_data(cfg, ranks)
    training = open_training(cfg, ranks, data)
    for number, batches in enumerate(data.loader.by_step()):
        step, _ = train_step(
            training, batches, Position(0, number, (number + 1) / data.loader.steps)
        )
        yield step.losses["loss"]


@pytest.mark.parametrize("temporal", ["dds", "gru", "attention", "scan", "none"])
def test_losses_are_those_of_the_cpu(config, temporal):
    cfg = config("model.dropout=0", f"model.temporal={temporal}", "train.amp=off")
    on_gpu, on_cpu = next(take_steps(cfg, GPU)), next(take_steps(cfg, one_rank()))
    assert on_gpu == pytest.approx(on_cpu, rel=2e-3)


@pytest.mark.parametrize("amp", ["auto", "off"])
def test_a_step_waits_for_the_matcher_and_for_the_losses(config, amp):
    steps = take_steps(config(f"train.amp={amp}"), GPU)
    next(steps)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchroni") as waits:
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(waits) == 2, [str(wait.message) for wait in waits]
