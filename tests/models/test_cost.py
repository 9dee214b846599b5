"""Costs as counted by hand, and as real tensors cost."""

import pytest
import torch

from experiments import model_summary as summary_module
from models import build_model
from models.cost import kept_bytes, measure_cost
from models.temporal import TEMPORAL

SIZES = {
    **{"width": 16, "heads": 2, "feedforward": 24, "encoder_layers": 1, "decoder_layers": 2},
    **{"temporal_layers": 1, "queries": 5, "dropout": 0.0, "backbone": "conv"},
}
SIDE = 32
TOKENS = (SIDE // 8) ** 2
CPU = torch.device("cpu")


def full_precision():
    return torch.autocast("cpu", enabled=False)


@pytest.fixture(scope="module")
def cost():
    return measure_cost(SIZES, (SIDE, SIDE), 6, full_precision(), CPU)


def test_parameters_are_those_counted_by_hand(cost):
    box = 2 * (16 * 16 + 16) + 16 * 4 + 4
    encoder = 3 * 16 * 17 + 16 * 17 + (16 * 24 + 24) + (24 * 16 + 16) + 2 * 2 * 16
    assert cost.parameters["person_box"] == cost.trainable["person_box"] == box
    assert cost.parameters["object_class"] == 16 * 37 + 37
    assert cost.parameters["encoder"] == encoder
    total = sum(p.numel() for p in build_model(**SIZES).parameters())
    assert sum(cost.parameters.values()) == total
    assert cost.parameter_bytes == cost.trainable_bytes == 4 * total


def test_flops_are_those_counted_by_hand(cost):
    layers, queries = 2 + 1, 5
    assert cost.flops["object_class"] == 2 * layers * queries * 16 * 37
    assert cost.flops["person_box"] == 2 * layers * queries * (2 * 16 * 16 + 16 * 4)
    assert cost.flops["input_proj"] == 2 * TOKENS * 128 * 16
    projections = 4 * 16 * 16 + 2 * 16 * 24
    attention = 2 * TOKENS * TOKENS * 16
    assert cost.flops["encoder"] == 2 * (TOKENS * projections + attention)
    convolutions = 9 * (16**2 * 3 * 16 + 8**2 * 16 * 64 + 4**2 * 64 * 128)
    assert cost.flops["backbone"] == 2 * convolutions


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_twice_the_frames_keep_twice_the_memory_but_for_a_constant(temporal):
    """`Affine` comes from one and two blocks; a real forward pass of more keeps what it says."""
    sizes = SIZES | {"temporal": temporal}
    cost = measure_cost(sizes, (SIDE, SIDE), 6, full_precision(), CPU)
    model = build_model(**sizes).train()
    for recompute in (False, True):
        model.recompute = recompute
        for blocks in (1, 4):
            frames = 6 * blocks
            pixels = torch.zeros(blocks, 6, 3, SIDE, SIDE, dtype=torch.uint8)
            flags = torch.zeros(2, blocks, 6, dtype=torch.bool)
            real = kept_bytes(model, (pixels, *flags), full_precision())
            if recompute:
                assert cost.kept_recomputing(frames) == pytest.approx(real.total(), rel=0.01)
            else:
                assert cost.activations(frames, False) == pytest.approx(real.total(), rel=0.01)
                assert cost.kept["encoder"](frames) == real["encoder"]
                assert cost.kept["backbone"](frames) == real["backbone"]


def test_what_a_linear_layer_keeps_is_its_input():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(3, 5)
            self.second = torch.nn.Linear(5, 2)

        def forward(self, inputs):
            return self.second(self.first(inputs)) * inputs.sum()

    kept = kept_bytes(Two(), (torch.ones(4, 3),), full_precision())
    # The input itself is there anyway; `first` keeps that, `second` what `first` said, and the
    # product at the end the sum (its other factor needs no gradient for it).
    assert kept == {"second": 4 * 4 * 5, "other": 4}


def test_recomputing_takes_less_in_long_steps_and_never_more_than_its_chunk_on_top(cost):
    assert cost.activations(94, True) < 0.8 * cost.activations(94, False)
    assert cost.activations(4, True) < 1.2 * cost.activations(4, False)


def test_the_full_model_at_real_size_takes_no_memory():
    cost = measure_cost({}, (480, 640), 4, full_precision(), CPU)
    assert 40e9 < cost.flops["backbone"] < 60e9  # 4.1 G multiply-adds at 224 x 224, six times that
    assert 20 * 2**30 < cost.activations(94, False) < 100 * 2**30
    assert cost.activations(94, True) < 0.5 * cost.activations(94, False)


def test_the_summary_takes_overrides_and_prints_a_short_table(monkeypatch, capsys):
    line = ["summary", "model.queries=5", "train.batch_frames=50", "train.device=cpu"]
    monkeypatch.setattr("sys.argv", line)
    summary_module.main()
    text = capsys.readouterr().out
    assert "dds_tiny, frames of 64 x 64, on cpu in float32, blocks of 50" in text
    assert "a step of 50 frames" in text
    (row,) = (row.split() for row in text.splitlines() if row.startswith("object_class"))
    assert row[1] == f"{64 * 37 + 37:,}"
    assert len(text.splitlines()) < 40


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("model=huge", "there is no model 'huge'; choose one of"),
        ("model.depth=3", "there is no config key 'model.depth'"),
        ("model.checkpoint=all", "choose none, backbone or auto"),
        ("model.backbone=vgg", "no backbone is called 'vgg'"),
    ],
)
def test_bad_overrides_end_in_one_sentence(override, sentence, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["summary.py", override])
    with pytest.raises(SystemExit) as stopped:
        summary_module.main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line
