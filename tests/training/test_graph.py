"""CUDA graphs as far as a CPU goes: a recorder that records nothing, and the order of steps."""

import pytest
import torch

from datasets.letterbox import Letterbox
from models.tensor_network import TensorNetwork
from tests.training.jobs import one_rank, open_and_leave, take_steps
from training import build, graph
from training.data import open_data

AUTO = "train.cuda_graph=auto"
WRAPPERS = [(build, "AveragedModel"), (torch.cuda, "make_graphed_callables")]
WRAPPERS += [(build, "DistributedDataParallel")]


@pytest.fixture
def order(monkeypatch):
    """The names of what wraps a network, as called; a recorder that records nothing."""
    called = []

    def note(name, wrap):
        def wrapper(network, *args, **options):
            called.append(name)
            return wrap(network, *args, **options)

        return wrapper

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", lambda core, inputs: core)
    monkeypatch.setattr(graph, "DEVICE", "cpu")
    for module, name in WRAPPERS:
        monkeypatch.setattr(module, name, note(name, getattr(module, name)))
    return called


def test_what_is_recorded_trains_as_before(config, order, capsys):
    # Extents, and padding in the last batch.
    lines = (AUTO, "train.epochs=1", "dataset.frame_size=[48,32]", "train.ema=0.9")
    recorded = [step.losses["loss"] for step in take_steps(config(*lines), one_rank())]
    assert order == ["AveragedModel", "make_graphed_callables"]
    assert "not recorded" not in capsys.readouterr().out
    off = take_steps(config(*lines[1:]), one_rank())
    assert recorded == pytest.approx([step.losses["loss"] for step in off], rel=1e-5)


def test_pictures_with_margins_are_replayed_after_an_example_without(config, order, monkeypatch):
    replays, letterbox = [], Letterbox.__call__
    forward = TensorNetwork.forward

    def first_fills(self, batch, *args):
        batch, extent_BT2 = letterbox(self, batch, *args)
        return batch, extent_BT2 if order else None

    monkeypatch.setattr(Letterbox, "__call__", first_fills)
    monkeypatch.setattr(TensorNetwork, "forward", lambda *args: replays.append(1) or forward(*args))
    steps = [*take_steps(config(AUTO, "train.epochs=1", "dataset.frame_size=[48,32]"), one_rank())]
    assert len(replays) == 1 + len(steps)  # the comparison, and each step


def test_ddp_comes_last(config, order, tmp_path):
    ranks, cfg = one_rank(), config(AUTO, "loader.t_max=64")
    training = build.open_training(cfg, ranks, open_data(cfg, ranks))
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/it", rank=0, world_size=1)
    try:
        batch = next(iter(training.loader))
        build.wrap_in_ddp(training.network, ranks, training.to_inputs(batch)[0])
    finally:
        torch.distributed.destroy_process_group()
    assert order == ["make_graphed_callables", "DistributedDataParallel"]


REASONS = {
    "loader.block_sizes=2": "several sizes",
    "model.skip_padding=true": "skipped",
    "loader.long=carry loader.t_max=20": "go on",
    "model.recompute=backbone": "activations",
    "train.micro_batches=2": "several batches",
}


@pytest.mark.parametrize("line", REASONS)
def test_it_says_why_steps_are_not_recorded(line, config, order, capsys):
    open_and_leave(config(AUTO, *line.split()))
    assert not order
    assert f"{REASONS[line]}" in capsys.readouterr().out.split("not recorded")[1]


def fail(*_):
    error = RuntimeError("an earlier error")  # as the end of a capture says
    error.__context__ = RuntimeError("operation not permitted when stream is capturing")
    raise error


def go_wrong(core, inputs):
    forward = core.forward  # the walk forgets its starts
    core.forward = lambda pixels, start, *rest: forward(pixels, torch.zeros_like(start), *rest)


def fail_later(core, inputs):
    core.forward = fail  # while the weights that were 0 are drawn


RECORDERS = [(fail, "capturing"), (go_wrong, "deviate"), (fail_later, "capturing")]


@pytest.mark.parametrize(("record", "words"), RECORDERS)
def test_a_recording_that_fails_or_is_wrong_is_left_out(
    record, words, config, order, capsys, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", record)
    with_it = next(take_steps(config(AUTO), one_rank()))
    assert words in capsys.readouterr().out.split("not recorded")[1]
    assert with_it == next(take_steps(config(), one_rank()))
