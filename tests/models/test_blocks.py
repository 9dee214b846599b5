"""A block of several videos gives each video what it gets alone.

L layers, B blocks, T slots.
"""

import pytest
import torch

from models import Criterion, counts, to_tensors
from models.temporal import PARTS
from tests.models.conftest import SIDE, annotate, difference, gradients, pack, tensors, tiny

BLOCKS = ((0, 1, 2), (3,))
SLOTS = 9
GAPS = ((0, 30, 1), (0,), (0, 2, 400, 29), (0, 7))
"""Frames of the native rate since the frame before, for each of the four videos."""
KINDS = ({"anchored": True, "dense": True, "time": "gap"}, {"norm_first": False})
MEMORIES = [temporal for temporal in PARTS if temporal != "none"]


def gaps_of(*videos: int, padding: float = 0) -> torch.Tensor:
    """Gaps ``(T,)`` of a block of videos."""
    gap_T = torch.full((SLOTS,), float(padding))
    gaps = [gap for video in videos for gap in GAPS[video]]
    gap_T[: len(gaps)] = torch.tensor(gaps)
    return gap_T


def alone(model, videos, video):
    """Outputs of one video in a batch of its own."""
    length = len(videos[video])
    start_BT = torch.arange(length)[None] == 0
    return model(videos[video][None], start_BT, gap_BT=gaps_of(video)[None, :length])


@pytest.mark.parametrize("temporal", PARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_block_gives_the_outputs_and_gradients_of_its_videos_alone(videos, temporal, kind):
    model, criterion = tiny(temporal=temporal, **kind), Criterion()
    annotations = [annotate(video, len(frames)) for video, frames in enumerate(videos)]
    ordered = [frame for block in BLOCKS for video in block for frame in annotations[video]]
    targets = to_tensors(ordered)
    total = counts(targets, queries=5)
    frames, start, valid = pack(videos, BLOCKS, SLOTS, padding=77)
    gap_BT = torch.stack([gaps_of(*block, padding=float("nan")) for block in BLOCKS])
    packed = model(frames, start, valid, gap_BT=gap_BT)
    packed_loss = criterion(packed, targets, valid, total)["loss"]
    packed_loss.backward()
    together = gradients(model)

    # The videos one by one, each divided by the counts of all: what ranks and micro-batches do.
    loss = 0.0
    for row, block in enumerate(BLOCKS):
        slot = 0
        for video in block:
            outputs, length = alone(model, videos, video), len(videos[video])
            for name, single in tensors(outputs).items():
                inside = getattr(packed, name)[:, row, slot : slot + length]
                assert (inside - single[:, 0]).abs().max() < 1e-12, name
            everywhere = torch.ones(1, length, dtype=torch.bool)
            part = criterion(outputs, to_tensors(annotations[video]), everywhere, total)["loss"]
            part.backward()
            loss += part.item()
            slot += length
    apart = gradients(model)
    assert packed_loss.item() == pytest.approx(loss, rel=1e-12)
    torch.testing.assert_close(together, apart, rtol=1e-8, atol=1e-11)
    assert torch.isfinite(apart).all()

    # The same comparison fails with a wrong start table, if there is a memory to leak.
    start[0, len(videos[0])] = False
    criterion(model(frames, start, valid, gap_BT=gap_BT), targets, valid, total)["loss"].backward()
    leak = (gradients(model) - apart).abs().max()
    assert leak > 1e-4 if temporal in MEMORIES else leak < 1e-11


@torch.no_grad()
@pytest.mark.parametrize("temporal", PARTS)
def test_starts_decide_what_is_remembered(videos, temporal):
    model = tiny(temporal=temporal)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    right = model(frames, start, valid)
    for slot, is_start in ((len(videos[0]), False), (1, True)):  # a missing and a superfluous one
        wrong = start.clone()
        wrong[0, slot] = is_start
        changed = difference(model(frames, wrong, valid), right)
        assert changed > 1e-3 if temporal in MEMORIES else changed == 0


@pytest.mark.parametrize("temporal", PARTS)
def test_padding_content_does_not_matter(videos, temporal):
    model, criterion = tiny(temporal=temporal), Criterion()
    targets = to_tensors(annotate(0, sum(map(len, videos))))
    total = counts(targets, queries=5)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    results = []
    for content in (13, float("nan")):
        changed = torch.where(valid[..., None, None, None], frames.double(), content)
        criterion(model(changed, start, valid), targets, valid, total)["loss"].backward()
        results.append(gradients(model))
    assert torch.isfinite(results[1]).all()
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-14)


@torch.no_grad()
@pytest.mark.parametrize("temporal", MEMORIES)
def test_memory_reaches_over_a_whole_video(temporal):
    model = tiny(temporal=temporal)
    generator = torch.Generator().manual_seed(2)
    frames = torch.randint(0, 256, (1, 40, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8)
    start = torch.arange(40)[None] == 0
    before = model(frames, start).relation_logits_LBTNR[-1, 0, -1]
    frames[0, 0] = 255 - frames[0, 0]
    after = model(frames, start).relation_logits_LBTNR[-1, 0, -1]
    assert (before - after).abs().max() > 1e-4
