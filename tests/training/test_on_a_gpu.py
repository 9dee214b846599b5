"""What only a card can show of training: losses as on the CPU, and what a step waits for."""

import pytest
import torch

from tests.training.jobs import one_rank, take_steps
from training.ranks import Ranks

pytestmark = pytest.mark.gpu
AUTO = "train.cuda_graph=auto"
GPU = Ranks(0, 1, torch.device("cuda", 0))


@pytest.mark.parametrize("temporal", ["dds", "gru", "scan", "none"])
def test_losses_are_those_of_the_cpu(config, temporal, capsys):
    lines = "model.dropout=0", f"model.temporal={temporal}", "train.amp=off"
    on_gpu = next(take_steps(config(*lines, AUTO), GPU)).losses["loss"]
    on_cpu = next(take_steps(config(*lines), one_rank())).losses["loss"]
    assert on_gpu == pytest.approx(on_cpu, rel=2e-3)
    assert "not recorded" not in capsys.readouterr().out


def test_what_is_recorded_draws_and_learns_as_without_graphs(config):
    lines = "model.dropout=0.1", "train.amp=off", "train.epochs=1"
    runs = [take_steps(config(*lines, way), GPU) for way in (AUTO, "train.cuda_graph=off")]
    recorded, plain = ([step.losses["loss"] for step in steps] for steps in runs)
    assert recorded == pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("amp", ["auto", "off"])
def test_a_step_waits_for_the_matcher_and_for_the_losses(config, amp):
    steps = take_steps(config(f"train.amp={amp}", AUTO), GPU)
    next(steps)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchroni") as waits:
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(waits) == 2, [str(wait.message) for wait in waits]
