"""A block of several videos gives each video what it gets alone.

L layers, B blocks, T slots.
"""

import pytest
import torch

from models.criterion import loss_divisors
from models.network_input import NetworkInput
from models.targets import to_tensors
from models.temporal import TEMPORAL_PARTS
from tests.models.conftest import LOSSES, annotate, gradients, random_input, tensors, tiny

BLOCKS, LENGTHS, SLOTS = ((0, 1, 2), (3,)), (3, 1, 4, 2), 9
"""Videos of each block, frames of each video."""
GAPS = ((0, 30, 1), (0,), (0, 2, 400, 29), (0, 7))
"""Frames of the native rate since the frame before, for each of the four videos."""
KINDS = ({"anchored": True, "dense": True, "time": "gap"}, {"norm_first": False})


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
    return model(NetworkInput(videos[video][None], start_BT, gap_BT=gaps_of(video)[None, :length]))


@pytest.mark.parametrize("temporal", TEMPORAL_PARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_block_gives_the_outputs_and_gradients_of_its_videos_alone(temporal, kind):
    model, criterion = tiny(temporal=temporal, **kind), LOSSES
    batch = random_input([[LENGTHS[video] for video in block] for block in BLOCKS], SLOTS)
    start, valid = batch.start_BT, batch.valid_BT
    videos = batch.pixels_BTCHW[valid].split(LENGTHS)
    annotations = [annotate(video, len(frames)) for video, frames in enumerate(videos)]
    ordered = [frame for block in BLOCKS for video in block for frame in annotations[video]]
    targets = to_tensors(ordered)
    total = loss_divisors(targets.objects, queries=5)
    padding = ~valid[..., None, None, None]
    frames = batch.pixels_BTCHW.double().masked_fill(padding, float("nan"))
    gap_BT = torch.stack([gaps_of(*block, padding=float("nan")) for block in BLOCKS])
    packed = model(NetworkInput(frames, start, valid, gap_BT=gap_BT))
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

    # The same comparison fails with a wrong start table, if there is a memory to leak.
    start[0, len(videos[0])] = False
    outputs = model(NetworkInput(frames, start, valid, gap_BT=gap_BT))
    criterion(outputs, targets, valid, total)["loss"].backward()
    leak = (gradients(model) - apart).abs().max()
    assert leak > 1e-4 if temporal != "none" else leak < 1e-11
