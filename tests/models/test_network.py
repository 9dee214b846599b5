"""The network as a whole: sizes, layers, precision, names."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from torch import nn

from bload.errors import InputError
from models import Criterion, Outputs, build_model, counts, to_tensors
from models.anchors import PersonPlace, Windows
from models.attention import Attention
from models.position import sine_position, spread_points, token_centres
from models.temporal import TEMPORAL


def batch(blocks: int, slots: int, side: int):
    frames = torch.randint(0, 256, (blocks, slots, 3, side, side), dtype=torch.uint8)
    start = torch.zeros(blocks, slots, dtype=torch.bool)
    start[:, 0] = True
    return frames, start


@pytest.mark.parametrize("temporal", TEMPORAL)
@pytest.mark.parametrize(("decoder_layers", "temporal_layers"), [(2, 1), (1, 3)])
def test_every_layer_of_both_decoders_has_outputs(tiny, temporal, decoder_layers, temporal_layers):
    model = tiny(temporal=temporal, decoder_layers=decoder_layers, temporal_layers=temporal_layers)
    outputs = model(*batch(2, 3, 32))
    lasts = (4, 4, 37, 4, 26)
    for field, last in zip(fields(Outputs)[:5], lasts, strict=True):
        shape = getattr(outputs, field.name).shape
        assert shape == (decoder_layers + temporal_layers, 2, 3, 5, last), field.name


@pytest.mark.parametrize("backbone", ["resnet18", "resnet50"])
def test_full_size_runs_on_a_small_frame(backbone):
    torch.manual_seed(0)
    model = build_model(backbone=backbone, encoder_layers=1, decoder_layers=1).eval()
    with torch.no_grad():
        outputs = model(*batch(1, 2, 64))
    assert outputs.class_logits_LBTNK.shape == (3, 1, 2, 100, 37)
    for field in fields(Outputs)[:5]:
        assert torch.isfinite(getattr(outputs, field.name)).all()


def test_default_network_is_the_published_size():
    with torch.device("meta"):
        model = build_model()
    assert len(model.encoder.layers) == 6
    assert len(model.object_branch.decoder.layers) == len(model.relation_branch.decoder.layers) == 6
    assert model.object_branch.query_embed.weight.shape == (100, 256)
    # DETR's ResNet-50 network has 41.3 million; here are a second decoder and the temporal parts.
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert 55 < millions < 65


def test_branches_share_nothing_but_the_encoded_frames(tiny):
    model = tiny()
    model(*batch(1, 2, 32)).relation_logits_LBTNR.sum().backward()
    assert all(parameter.grad is None for parameter in model.object_branch.parameters())
    assert all(parameter.grad is not None for parameter in model.relation_branch.parameters())
    assert all(parameter.grad is not None for parameter in model.encoder.parameters())


def test_bytes_and_floats_are_the_same_frames(tiny):
    model = tiny()
    frames, start = batch(1, 2, 32)
    for field in fields(Outputs)[:5]:
        torch.testing.assert_close(
            getattr(model(frames, start), field.name),
            getattr(model(frames.float(), start), field.name),
        )


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_trains_under_autocast_to_bfloat16(tiny, annotate, temporal):
    model = tiny(temporal=temporal).float()
    frames, start = batch(2, 3, 32)
    valid = torch.ones_like(start)
    targets = to_tensors(annotate(np.random.default_rng(0), 6))
    total = counts(targets, 5)
    exact = Criterion()(model(frames, start, valid), targets, valid, total)["loss"]
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(frames, start, valid)
    assert all(getattr(outputs, field.name).dtype == torch.float32 for field in fields(Outputs)[:5])
    rounded = Criterion()(outputs, targets, valid, total)["loss"]
    rounded.backward()
    assert rounded.item() == pytest.approx(exact.item(), rel=0.05)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_attention_is_pytorchs_with_the_same_parameters():
    torch.manual_seed(0)
    ours = Attention(16, 4).double()
    theirs = nn.MultiheadAttention(16, 4, batch_first=True).double()
    theirs.load_state_dict(ours.state_dict())
    query, key, value = (torch.randn(3, n, 16, dtype=torch.float64) for n in (5, 7, 7))
    torch.testing.assert_close(ours(query, key, value), theirs(query, key, value)[0])


def test_position_tells_rows_by_the_first_half_and_columns_by_the_second():
    centres = token_centres(3, 5, like=torch.zeros(1))
    grid = sine_position(centres, 16, temperature=10_000, turns=1).view(3, 5, 16)
    torch.testing.assert_close(grid[:, 0, :8], grid[:, 4, :8])
    torch.testing.assert_close(grid[0, :, 8:], grid[2, :, 8:])
    assert len({tuple(token) for token in grid.flatten(0, 1).tolist()}) == 15


@pytest.mark.parametrize("count", [1, 2, 7, 10, 16])
def test_anchor_points_are_distinct_and_inside_the_picture(count):
    points = spread_points(count)
    assert points.shape == (count, 2)
    assert len({tuple(point) for point in points.tolist()}) == count
    assert ((points > 0) & (points < 1)).all()


def test_anchored_boxes_begin_at_their_anchors(tiny):
    model = tiny(anchored=True, queries=16)
    for head in (model.object_box, model.union_box):
        torch.nn.init.zeros_(head.layers[-1].bias)
    outputs = model(*batch(1, 2, 32))
    for boxes in (outputs.object_boxes_LBTN4, outputs.union_boxes_LBTN4):
        points = spread_points(16).double().expand_as(boxes[..., :2])
        torch.testing.assert_close(boxes[..., :2], points, rtol=1e-5, atol=1e-6)


def test_windows_of_all_heads_but_the_first_fall_off_around_their_points():
    windows = Windows(queries=16, heads=4)
    bias_HNS = windows(token_centres(4, 4, like=torch.zeros(1)))[0]
    assert not bias_HNS[0].any()
    for head in bias_HNS[1:]:
        torch.testing.assert_close(head.argmax(1), torch.arange(16))
        torch.testing.assert_close(head.amax(1), torch.zeros(16))
    # One standard deviation away a score is less by 1/2.
    away = torch.tensor([[0.125 + 1 / 12, 0.125]])
    torch.testing.assert_close(windows(away)[0, -1, 0], torch.tensor([-0.5]))


def test_the_place_of_the_person_is_the_mean_place_of_the_tokens_that_look_like_one():
    place = PersonPlace(width=2)
    torch.nn.init.zeros_(place.score.bias)
    with torch.no_grad():
        place.score.weight.copy_(torch.tensor([[50.0, 0.0]]))
    tokens = torch.zeros(2, 16, 2)
    tokens[0, 6, 0] = 1  # row 1, column 2
    tokens[1, [0, 3, 12, 15], 0] = 1  # the corners
    reference = place(tokens, token_centres(4, 4, like=tokens)).sigmoid()
    torch.testing.assert_close(reference[0, 0, :2], torch.tensor([2.5 / 4, 1.5 / 4]))
    torch.testing.assert_close(reference[1, 0, :2], torch.tensor([0.5, 0.5]))
    assert reference.shape == (2, 1, 4)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"backbone": "vgg"}, "set model.backbone to one of resnet50, resnet18, conv"),
        ({"temporal": "lstm", "backbone": "conv"}, "set model.temporal to one of dds, gru, "),
        (
            {"temporal": "attention", "width": 12, "heads": 4, "backbone": "conv"},
            "width 12 cannot be split over 4 heads of an even size; make model.width a multiple",
        ),
        ({"width": 62, "backbone": "conv"}, "width 62 cannot be split over 8 heads"),
    ],
)
def test_unknown_names_and_sizes_are_refused_with_the_way_out(sizes, sentence):
    with pytest.raises(InputError, match=sentence):
        build_model(**sizes)
