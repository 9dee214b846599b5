"""Under every loader two ranks train an epoch to its end, in step, and stay one model."""

from statistics import fmean
from unittest import mock

import pytest

import train
from bload import PACKERS
from tests.training.jobs import checkpoint, metrics, only_run
from training import run as runs


def train_and_tell(ranks, config):
    """This rank's weights at the end of the epoch, and the steps it took."""
    with (
        mock.patch.object(runs, "train_step", wraps=runs.train_step) as steps,
        mock.patch.object(runs, "evaluate", return_value=({"with/recall@20": 0.5}, None)),
        mock.patch.object(runs.Run, "finish"),
    ):
        train.train(config, ranks)
    model = steps.call_args.args[0].model
    weights = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    return weights, [call.args[2][:2] for call in steps.call_args_list]


@pytest.mark.dist
@pytest.mark.parametrize("loader", sorted(PACKERS))
def test_two_ranks_take_equal_steps_and_end_with_equal_weights(config, tmp_path, two_ranks, loader):
    job = config(f"loader={loader}", "train.epochs=1", "train.batch_slots=45", "train.log_every=1")
    (first, first_steps), (second, second_steps) = two_ranks.run(train_and_tell, job)
    assert first_steps == second_steps == [(0, step) for step in range(len(first_steps))]
    assert len(first_steps) >= 2 or loader in ("mix", "sampling")
    folder = only_run(tmp_path / "runs")
    assert f"{loader}-dds_tiny-synthetic-s0-" in folder.name
    saved = checkpoint(folder)["model"]
    assert first.keys() == second.keys() == saved.keys()
    for name, value in saved.items():
        assert value.numpy().tobytes() == first[name].tobytes() == second[name].tobytes(), name
    *steps, epoch, _ = metrics(folder)
    parts = [name for name in epoch if name.startswith("loss")]
    assert {"loss", "loss_class", "loss_dense"} < {*parts}
    for part in parts:  # of all ranks, by step as by epoch
        assert fmean(step[part] for step in steps) == pytest.approx(epoch[part]), part
    assert {path.name for path in folder.glob("*.log")} == {"rank0.log", "rank1.log"}
