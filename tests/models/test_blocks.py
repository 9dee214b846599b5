"""A block of several videos gives each video what it gets alone.

L layers, B blocks, T slots.
"""

from dataclasses import fields

import numpy as np
import pytest
import torch

from models import Criterion, Outputs, counts, to_tensors
from models.temporal import TEMPORAL

BLOCKS = ((0, 1, 2), (3,))
SLOTS = 9
PARTS = [(temporal, norm_first) for temporal in TEMPORAL for norm_first in (True, False)]
MEMORIES = [temporal for temporal in TEMPORAL if temporal != "none"]


@torch.no_grad()
def read(model, *batch) -> Outputs:
    """Outputs without a graph."""
    return model(*batch)


def forward_alone(model, videos) -> list[Outputs]:
    """Outputs of each video in a batch of its own."""
    outputs = []
    for video in videos:
        start_BT = torch.zeros(1, len(video), dtype=torch.bool)
        start_BT[0, 0] = True
        outputs.append(model(video[None], start_BT))
    return outputs


def largest_difference(packed: Outputs, alone: list[Outputs]) -> float:
    """Over all fields, layers and frames of all videos."""
    largest = 0.0
    for row, block in enumerate(BLOCKS):
        slot = 0
        for video in block:
            for field in fields(Outputs)[:5]:
                single = getattr(alone[video], field.name)[:, 0]
                inside = getattr(packed, field.name)[:, row, slot : slot + single.shape[1]]
                largest = max(largest, (inside - single).abs().max().item())
            slot += single.shape[1]
    return largest


def gradients(model) -> torch.Tensor:
    """All gradients in one vector; clears them."""
    vector = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    model.zero_grad(set_to_none=True)
    return vector


@pytest.mark.parametrize(("temporal", "norm_first"), PARTS)
def test_block_equals_videos_alone(tiny, videos, pack, temporal, norm_first):
    model = tiny(temporal=temporal, norm_first=norm_first)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    assert (
        largest_difference(read(model, frames, start, valid), forward_alone(model, videos)) < 1e-12
    )


@pytest.mark.parametrize("temporal", MEMORIES)
def test_missing_start_leaks_one_video_into_the_next(tiny, videos, pack, temporal):
    model = tiny(temporal=temporal)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    start[0, len(videos[0])] = False
    assert (
        largest_difference(read(model, frames, start, valid), forward_alone(model, videos)) > 1e-3
    )


@pytest.mark.parametrize("temporal", MEMORIES)
def test_superfluous_start_forgets(tiny, videos, pack, temporal):
    model = tiny(temporal=temporal)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    start[0, 1] = True
    assert (
        largest_difference(read(model, frames, start, valid), forward_alone(model, videos)) > 1e-3
    )


def test_without_memory_starts_do_not_matter(tiny, videos, pack):
    model = tiny(temporal="none")
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    wrong = torch.zeros_like(start)
    assert (
        largest_difference(read(model, frames, wrong, valid), forward_alone(model, videos)) < 1e-12
    )


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("temporal", "norm_first"), PARTS)
def test_gradients_of_a_block_are_those_of_its_videos(
    tiny, videos, pack, annotate, temporal, norm_first, small
):
    # `small` is what only small networks use: anchored queries and the dense side task.
    model = tiny(temporal=temporal, norm_first=norm_first, anchored=small, dense=small)
    criterion = Criterion()
    rng = np.random.default_rng(0)
    annotations = [annotate(rng, len(video)) for video in videos]
    ordered = to_tensors(
        [frame for block in BLOCKS for video in block for frame in annotations[video]]
    )
    total = counts(ordered, queries=5)

    frames, start, valid = pack(videos, BLOCKS, SLOTS, padding=77)
    packed_loss = criterion(model(frames, start, valid), ordered, valid, total)["loss"]
    packed_loss.backward()
    packed = gradients(model)

    # The videos one by one, each divided by the counts of all: what ranks and micro-batches do.
    loss = 0.0
    for video, outputs in enumerate(forward_alone(model, videos)):
        everywhere = torch.ones(1, len(videos[video]), dtype=torch.bool)
        part = criterion(outputs, to_tensors(annotations[video]), everywhere, total)["loss"]
        part.backward()
        loss += part.item()
    alone = gradients(model)
    assert packed_loss.item() == pytest.approx(loss, rel=1e-12)
    torch.testing.assert_close(packed, alone, rtol=1e-8, atol=1e-11)

    # The same comparison fails with a wrong start table, if there is a memory to leak.
    start[0, len(videos[0])] = False
    criterion(model(frames, start, valid), ordered, valid, total)["loss"].backward()
    leak = (gradients(model) - alone).abs().max()
    assert leak > 1e-4 if temporal in MEMORIES else leak < 1e-11


@pytest.mark.parametrize("temporal", TEMPORAL)
@pytest.mark.parametrize("padding", [0, 255, float("nan")])
def test_padding_content_does_not_matter(tiny, videos, pack, annotate, temporal, padding):
    model, criterion = tiny(temporal=temporal), Criterion()
    annotations = annotate(np.random.default_rng(0), sum(map(len, videos)))
    targets = to_tensors(annotations)
    total = counts(targets, queries=5)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    results = []
    for content in (13, padding):
        changed = torch.where(valid[..., None, None, None], frames.double(), content)
        criterion(model(changed, start, valid), targets, valid, total)["loss"].backward()
        results.append(gradients(model))
    assert torch.isfinite(results[0]).all()
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_frames_before_do_not_depend_on_frames_after(tiny, videos, pack, temporal):
    model = tiny(temporal=temporal)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    before = model(frames, start, valid).relation_logits_LBTNR
    frames[0, 2] = 255 - frames[0, 2]
    after = model(frames, start, valid).relation_logits_LBTNR
    torch.testing.assert_close(before[:, 0, :2], after[:, 0, :2])
    layers = slice(2, None)
    assert (before[layers, 0, 2] - after[layers, 0, 2]).abs().max() > 1e-6
    torch.testing.assert_close(before[:, 0, 3:], after[:, 0, 3:])


@pytest.mark.parametrize("temporal", MEMORIES)
def test_memory_reaches_over_a_whole_video(tiny, temporal):
    model = tiny(temporal=temporal)
    generator = torch.Generator().manual_seed(2)
    frames = torch.randint(0, 256, (1, 40, 3, 32, 32), generator=generator, dtype=torch.uint8)
    start = torch.zeros(1, 40, dtype=torch.bool)
    start[0, 0] = True
    before = model(frames, start).relation_logits_LBTNR[-1, 0, -1]
    frames[0, 0] = 255 - frames[0, 0]
    after = model(frames, start).relation_logits_LBTNR[-1, 0, -1]
    assert (before - after).abs().max() > 1e-4
