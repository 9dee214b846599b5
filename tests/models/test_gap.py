"""The time between frames: where it reaches, and that it answers what nothing else can.

B blocks, T slots, N queries, D width.
"""

from dataclasses import fields

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bload.errors import InputError
from models import Criterion, Outputs, build_model, counts, to_tensors
from models.cost import measure_cost
from models.temporal import TEMPORAL, build_temporal
from models.temporal.gap import GapEmbedding

BLOCKS = ((0, 1, 2), (3,))
SLOTS = 9
GAPS = ((0, 30, 1), (0,), (0, 2, 400, 29), (0, 7))
"""Of the four videos of the fixture."""
MEMORIES = [temporal for temporal in TEMPORAL if temporal != "none"]


def packed_gaps(padding: float = 0) -> torch.Tensor:
    gap_BT = torch.full((len(BLOCKS), SLOTS), float(padding))
    for row, block in enumerate(BLOCKS):
        gaps = [gap for video in block for gap in GAPS[video]]
        gap_BT[row, : len(gaps)] = torch.tensor(gaps)
    return gap_BT


def difference(first: Outputs, second: Outputs) -> float:
    return max(
        (getattr(first, field.name) - getattr(second, field.name)).abs().max().item()
        for field in fields(Outputs)[:5]
    )


def gradients(model: nn.Module) -> torch.Tensor:
    """All gradients in one vector; clears them."""
    vector = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    model.zero_grad(set_to_none=True)
    return vector


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_a_block_with_gaps_equals_its_videos_alone(tiny, videos, pack, annotate, temporal):
    model, criterion = tiny(temporal=temporal, time="gap"), Criterion()
    rng = np.random.default_rng(0)
    annotations = [annotate(rng, len(video)) for video in videos]
    ordered = [frame for block in BLOCKS for video in block for frame in annotations[video]]
    total = counts(to_tensors(ordered), queries=5)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    packed = model(frames, start, valid, gap_BT=packed_gaps(padding=float("nan")))
    criterion(packed, to_tensors(ordered), valid, total)["loss"].backward()
    together = gradients(model)
    for row, block in enumerate(BLOCKS):
        slot = 0
        for video in block:
            length = len(videos[video])
            alone = model(
                videos[video][None],
                torch.arange(length)[None] == 0,
                gap_BT=torch.tensor([GAPS[video]], dtype=torch.float32),
            )
            inside = (slice(None), slice(row, row + 1), slice(slot, slot + length))
            for field in fields(Outputs)[:5]:
                single = getattr(alone, field.name)
                assert (getattr(packed, field.name)[inside] - single).abs().max() < 1e-12
            everywhere = torch.ones(1, length, dtype=torch.bool)
            criterion(alone, to_tensors(annotations[video]), everywhere, total)["loss"].backward()
            slot += length
    torch.testing.assert_close(together, gradients(model), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_a_gap_reaches_its_frame_and_later_ones_of_the_same_video_alone(
    tiny, videos, pack, temporal
):
    model = tiny(temporal=temporal, time="gap")
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    gap_BT = packed_gaps().double().requires_grad_()
    outputs = model(frames, start, valid, gap_BT=gap_BT)
    for last in (1, 2, 3, 6, 7):
        said = (outputs.class_logits_LBTNK[:, 0, last], outputs.relation_logits_LBTNR[:, 0, last])
        for branch in said:
            weights = torch.arange(branch.numel(), dtype=torch.float64).cos().view_as(branch)
            (gradient,) = torch.autograd.grad((branch * weights).sum(), gap_BT, retain_graph=True)
            first = max(slot for slot in (0, 3, 4) if slot <= last)
            wanted = torch.zeros(2, SLOTS, dtype=torch.bool)
            wanted[0, last if temporal == "none" else first : last + 1] = True
            assert torch.equal(gradient != 0, wanted), last


def test_gaps_leave_the_spatial_layers_alone(tiny, videos, pack):
    model = tiny(time="gap")
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    with_gaps = model(frames, start, valid, gap_BT=packed_gaps()).relation_logits_LBTNR
    without = model(frames, start, valid, gap_BT=torch.zeros(2, SLOTS)).relation_logits_LBTNR
    assert torch.equal(with_gaps[:2], without[:2])
    assert (with_gaps[2:] - without[2:]).abs().max() > 1e-3


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_training_starts_as_without_gaps(tiny, videos, pack, temporal):
    plain, timed = tiny(temporal=temporal), tiny(temporal=temporal, time="gap")
    missing = timed.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert missing
    assert all(".gap." in name for name in missing)
    for name, parameter in timed.named_parameters():
        if name in missing:
            fresh = GapEmbedding(16).get_parameter(name.split(".gap.")[1])
            parameter.data.copy_(fresh)
    frames, start, valid = pack(videos, BLOCKS, SLOTS)
    outputs = timed(frames, start, valid, gap_BT=packed_gaps())
    assert difference(outputs, plain(frames, start, valid)) == 0
    outputs.relation_logits_LBTNR.square().sum().backward()
    assert timed.relation_branch.gap.linear.weight.grad.abs().min() > 0


def test_truncation_in_time_keeps_the_values(tiny, videos, pack):
    model = tiny(time="gap")
    batch = pack(videos, BLOCKS, SLOTS)
    whole = model(*batch, gap_BT=packed_gaps())
    assert difference(model(*batch, bptt=2, gap_BT=packed_gaps()), whole) < 1e-12


def test_a_network_of_gaps_refuses_to_run_without_them(tiny, videos, pack):
    batch = pack(videos, BLOCKS, SLOTS)
    with pytest.raises(InputError, match=r"give gap_BT, or train one with model\.time=none"):
        tiny(time="gap")(*batch)
    plain = tiny()
    assert difference(plain(*batch, gap_BT=packed_gaps()), plain(*batch)) == 0
    with pytest.raises(InputError, match=r"'clock'; set model\.time to none or gap"):
        build_model(time="clock", backbone="conv")


def test_the_cost_of_a_network_of_gaps_can_be_measured():
    sizes = {"width": 16, "heads": 2, "feedforward": 24, "queries": 5, "backbone": "conv"}
    sizes |= {"encoder_layers": 1, "decoder_layers": 1, "temporal_layers": 1}
    precision = torch.autocast("cpu", enabled=False)
    cost = measure_cost(sizes | {"time": "gap"}, (32, 32), 4, precision, torch.device("cpu"))
    plain = build_model(**sizes)
    without = sum(parameter.numel() for parameter in plain.object_branch.parameters())
    assert cost.parameters["object_branch"] - without == 33 * 16


LONGEST = 100
PASSED = 60
CHANCE_G = 1 / np.arange(1, LONGEST + 1) / (1 / np.arange(1, LONGEST + 1)).sum()
"""Of the gaps from 1 to `LONGEST` frames: as many from 1 to 10 as from 10 to 100."""


def draw_events(sequences: int, rng: np.random.Generator):
    """An event on one slot of each sequence; the question: have `PASSED` frames passed since?

    Returns the event's slot as a mask, the gaps, where the question is asked (after the event), and
    the answers, each ``(B, T)``.
    """
    gap_BT = rng.choice(LONGEST, (sequences, SLOTS), p=CHANCE_G) + 1
    gap_BT[:, 0] = 0
    event_B1 = rng.integers(SLOTS, size=(sequences, 1))
    after_BT = np.arange(SLOTS) > event_B1
    late_BT = np.cumsum(gap_BT * after_BT, axis=1) > PASSED
    drawn = (np.arange(SLOTS) == event_B1, gap_BT, after_BT, late_BT)
    return tuple(torch.from_numpy(array) for array in drawn)


def best_without_gaps() -> float:
    """Accuracy of who knows the chances, and how many frames, but not the time, have passed."""
    right, asked, elapsed = 0.0, 0, np.ones(1)
    for frames in range(1, SLOTS):
        elapsed = np.convolve(elapsed, np.append(0, CHANCE_G))
        late = elapsed[PASSED + 1 :].sum()
        right += (SLOTS - frames) * max(late, 1 - late)
        asked += SLOTS - frames
    return right / asked


def accuracy_of(temporal: str, timed: bool, steps: int) -> float:
    """Train a part of one query and one layer on events, and ask it about new ones."""
    torch.manual_seed(0)
    rng, width = np.random.default_rng(0), 16
    sizes = {"heads": 2, "feedforward": 32, "dropout": 0.0, "norm_first": True}
    part = build_temporal(temporal, layers=1, width=width, **sizes)
    gap, shown, answer = GapEmbedding(width), nn.Embedding(2, width), nn.Linear(width, 1)
    network = nn.ModuleList((part, gap, shown, answer))
    optimiser = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=steps)

    def scores(event_BT: torch.Tensor, gap_BT: torch.Tensor) -> torch.Tensor:
        embeddings = shown(event_BT.long())
        if timed:
            embeddings = embeddings + gap(gap_BT)
        start_BT = torch.zeros_like(event_BT)
        outputs, _ = part(embeddings[:, :, None], torch.zeros(1, width), start_BT)
        return answer(outputs[-1, :, :, 0]).squeeze(-1)

    for _ in range(steps):
        event, gaps, after, late = draw_events(64, rng)
        loss = F.binary_cross_entropy_with_logits(scores(event, gaps)[after], late[after].float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    event, gaps, after, late = draw_events(4000, rng)
    with torch.no_grad():
        return ((scores(event, gaps) > 0) == late)[after].float().mean().item()


@pytest.mark.parametrize("temporal", MEMORIES)
def test_with_gaps_a_memory_learns_how_long_ago_an_event_was(temporal):
    assert best_without_gaps() < 0.8
    assert accuracy_of(temporal, timed=True, steps=200) > 0.92


@pytest.mark.parametrize("temporal", ["dds", "gru"])
def test_without_gaps_it_guesses_as_well_as_can_be(temporal):
    bound = best_without_gaps()
    assert bound - 0.05 < accuracy_of(temporal, timed=False, steps=200) < bound + 0.02
