"""Every temporal part by itself: streams, single slots, half precision, and what each computes.

B blocks, T slots, N queries, D width.
"""

import pytest
import torch
from torch import nn

from models.temporal import TEMPORAL, build_temporal, in_chunks
from models.temporal.attention import AttentionMemory, turn
from models.temporal.chrono import gate_bias
from models.temporal.gru import GRUMemory
from models.temporal.linear_scan import linear_scan
from models.temporal.scan import ScanMemory

SIZES = {"layers": 2, "width": 16, "heads": 2, "feedforward": 24, "dropout": 0.0}


def part_of(temporal: str, norm_first: bool = True) -> nn.Module:
    torch.manual_seed(0)
    part = build_temporal(temporal, norm_first=norm_first, **SIZES).double()
    # Memories are silent before training; here they speak, or no test would hear them.
    for name, parameter in part.named_parameters():
        if "readout" in name:
            nn.init.normal_(parameter, std=0.3)
    return part


def draw(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def starts(slots: int, *rows: tuple[int, ...]) -> torch.Tensor:
    """A start table ``(B, T)`` with the starts of each row."""
    start_BT = torch.zeros(len(rows), slots, dtype=torch.bool)
    for row, slots_of_row in enumerate(rows):
        start_BT[row, list(slots_of_row)] = True
    return start_BT


def gradients(part: nn.Module) -> torch.Tensor:
    """All gradients in one vector; clears them."""
    vector = torch.cat([parameter.grad.flatten() for parameter in part.parameters()])
    part.zero_grad(set_to_none=True)
    return vector


@pytest.mark.parametrize("temporal", TEMPORAL)
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("chunks", [(1,) * 11, (3, 1, 5, 2), (7, 4), (2, 9)])
def test_a_stream_in_chunks_equals_its_block(temporal, norm_first, chunks):
    part = part_of(temporal, norm_first)
    embeddings, position = draw(3, 11, 4, 16), draw(4, 16)
    # Starts in mid-chunk, on the border of chunks, a row that begins in mid-video, and padding.
    start = starts(11, (0, 5), (0, 3, 4, 9), ())
    whole, _ = part(embeddings, position, start)
    weights = draw(*whole.shape)
    (whole * weights).sum().backward()
    wanted = gradients(part)

    outputs, state, slot = [], None, 0
    for chunk in chunks:
        inside = slice(slot, slot + chunk)
        output, state = part(embeddings[:, inside], position, start[:, inside], state)
        outputs.append(output)
        slot += chunk
    streamed = torch.cat(outputs, dim=2)
    assert (streamed - whole).abs().max() < 1e-12
    (streamed * weights).sum().backward()
    torch.testing.assert_close(gradients(part), wanted, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_long_blocks_equal_their_videos_alone(temporal):
    part, position = part_of(temporal), draw(2, 16)
    rows = ((50, 94, 7, 120, 29), (3, 150, 138))
    embeddings = draw(2, 300, 2, 16)
    firsts = [tuple(sum(row[:index]) for index in range(len(row))) for row in rows]
    whole, _ = part(embeddings, position, starts(300, *firsts))
    valid = torch.tensor([sum(row) for row in rows])[:, None] > torch.arange(300)
    weights = draw(*whole.shape) * valid[..., None, None]
    (whole * weights).sum().backward()
    packed = gradients(part)
    for row, (lengths, slots) in enumerate(zip(rows, firsts, strict=True)):
        for length, first in zip(lengths, slots, strict=True):
            inside = slice(first, first + length)
            alone, _ = part(embeddings[row : row + 1, inside], position, starts(length, (0,)))
            assert (alone[:, 0] - whole[:, row, inside]).abs().max() < 1e-12
            (alone[:, 0] * weights[:, row, inside]).sum().backward()
    torch.testing.assert_close(packed, gradients(part), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_a_stream_goes_on_in_the_state_it_is_given(temporal):
    part = part_of(temporal)
    embeddings, position = draw(1, 6, 4, 16), draw(4, 16)
    start = starts(6, (0,))
    whole, _ = part(embeddings, position, start)
    forgetful, _ = part(embeddings[:, 3:], position, start[:, 3:])
    difference = (whole[:, :, 3:] - forgetful).abs().max()
    assert difference < 1e-12 if temporal == "none" else difference > 1e-3


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_without_a_state_a_block_begins_anew_with_or_without_a_start(temporal):
    part = part_of(temporal)
    embeddings, position = draw(2, 4, 4, 16), draw(4, 16)
    marked, _ = part(embeddings, position, starts(4, (0,), (0, 2)))
    unmarked, _ = part(embeddings, position, starts(4, (), (2,)))
    torch.testing.assert_close(marked, unmarked, rtol=0, atol=0)


@pytest.mark.parametrize("temporal", TEMPORAL)
@pytest.mark.parametrize("slots", [1, 2, 3, 8, 9])
def test_outputs_and_gradients_are_finite_at_any_length(temporal, slots):
    part = part_of(temporal)
    embeddings = draw(2, slots, 4, 16).requires_grad_()
    # The second row is a filler: no video at all.
    output, _ = part(embeddings, draw(4, 16), starts(slots, (0,), ()))
    assert output.shape == (2, 2, slots, 4, 16)
    output.square().sum().backward()
    assert torch.isfinite(output).all()
    assert torch.isfinite(embeddings.grad).all()
    assert torch.isfinite(gradients(part)).all()


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_a_frame_changes_nothing_before_it_nor_in_other_videos(temporal):
    part = part_of(temporal)
    embeddings = draw(1, 12, 4, 16).requires_grad_()
    output, _ = part(embeddings, draw(4, 16), starts(12, (0, 3, 8)))
    for slot in (0, 5, 8, 11):
        first = max(start for start in (0, 3, 8) if start <= slot)
        (gradient,) = torch.autograd.grad(
            (output[:, :, slot] * draw(16)).sum(), embeddings, retain_graph=True
        )
        reached = gradient[0].abs().amax(dim=(1, 2)) > 0
        wanted = torch.zeros(12, dtype=torch.bool)
        wanted[slot if temporal == "none" else first : slot + 1] = True
        assert torch.equal(reached, wanted), slot


@pytest.mark.parametrize("temporal", TEMPORAL)
@pytest.mark.parametrize("norm_first", [True, False])
def test_half_precision_stays_close_over_a_full_block(temporal, norm_first):
    part = part_of(temporal, norm_first).float()
    embeddings, position = draw(1, 94, 4, 16).float(), draw(4, 16).float()
    start = starts(94, (0, 60))
    exact, _ = part(embeddings, position, start)
    exact.square().mean().backward()
    exact_gradients = gradients(part)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, _ = part(embeddings, position, start)
    rounded.float().square().mean().backward()
    rounded_gradients = gradients(part)
    assert torch.isfinite(rounded_gradients).all()
    assert (rounded - exact).abs().mean() < 0.01
    assert (rounded - exact).abs().max() < 0.1
    assert (rounded_gradients - exact_gradients).norm() < 0.05 * exact_gradients.norm()


def test_gru_is_pytorchs_with_the_same_parameters():
    torch.manual_seed(0)
    memory = GRUMemory(8, heads=2).double()
    theirs = nn.GRU(8, 8, batch_first=True).double()
    theirs.load_state_dict({f"{key}_l0": value for key, value in memory.cell.state_dict().items()})
    nn.init.normal_(memory.start)
    read = draw(2, 6, 3, 8)
    ours, state = memory(read, starts(6, (0,), (0,)), None)
    sequences = read.transpose(1, 2).flatten(0, 1)
    wanted, _ = theirs(sequences, memory.start.expand(1, 6, -1).contiguous())
    torch.testing.assert_close(ours, wanted.unflatten(0, (2, 3)).transpose(1, 2))
    torch.testing.assert_close(state, ours[:, -1])


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 8, 33])
def test_scan_equals_walking(slots):
    keep, add, state = draw(2, slots, 3, 4).sigmoid(), draw(2, slots, 3, 4), draw(2, 3, 4)
    keep[1, slots // 2] = 0
    walked, h = [], state
    for slot in range(slots):
        h = keep[:, slot] * h + add[:, slot]
        walked.append(h)
    torch.testing.assert_close(linear_scan(keep, add, state), torch.stack(walked, dim=1))


@pytest.mark.parametrize("slots", [1, 2, 5, 8])
def test_scan_has_the_right_gradients(slots):
    keep, add, state = draw(2, slots, 3).sigmoid(), draw(2, slots, 3), draw(2, 3)
    keep[0, slots // 2] = 0
    inputs = [tensor.requires_grad_() for tensor in (keep, add, state)]
    assert torch.autograd.gradcheck(linear_scan, inputs)


def test_scan_cuts_the_past_off_exactly():
    keep, add, state = torch.ones(1, 9, 1), torch.zeros(1, 9, 1), torch.full((1, 1), 1e30)
    keep[0, 4] = 0
    add[0, 5] = 1
    assert linear_scan(keep, add, state)[0, 4:, 0].tolist() == [0, 1, 1, 1, 1]


def test_scan_keeps_its_inputs_and_outputs_alone_for_the_backward_pass():
    saved = []
    keep, add, state = (draw(1, *shape, 8).requires_grad_() for shape in ((64,), (64,), ()))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()), lambda t: t):
        linear_scan(keep, add, state)
    assert sum(saved) == keep.numel() + add.numel() + state.numel()


def test_rotated_products_depend_on_the_difference_of_time_alone():
    query, key = draw(1, 8), draw(2, 8)[1:]
    product = [
        (turn(query, torch.tensor([late])) * turn(key, torch.tensor([early]))).sum()
        for late, early in ((7, 3), (904, 900), (7, 4))
    ]
    torch.testing.assert_close(product[0], product[1])
    assert abs(product[0] - product[2]) > 1e-3


def test_attention_weighs_the_frames_of_the_video_up_to_the_present_one():
    memory = AttentionMemory(8, heads=1).double()
    nn.init.zeros_(memory.in_proj.weight[:16])  # no preferences: the mean of what is seen
    with torch.no_grad():
        memory.in_proj.weight[16:] = torch.eye(8)
    read = draw(1, 5, 2, 8)
    remembered, _ = memory(read, starts(5, (0, 3)), None)
    for slot, first in enumerate((0, 0, 0, 3, 3)):
        torch.testing.assert_close(remembered[0, slot], read[0, first : slot + 1].mean(dim=0))


def test_the_cache_of_attention_holds_running_videos_alone():
    memory = AttentionMemory(8, heads=1).double()
    state, lengths = None, []
    start = starts(9, (0, 3, 7), (0, 5))
    for slot in range(9):
        inside = slice(slot, slot + 1)
        _, state = memory(draw(2, 1, 2, 8), start[:, inside], state)
        lengths.append(state.trimmed().running_BS.sum(dim=1).tolist())
    assert lengths == [[1, 1], [2, 2], [3, 3], [1, 4], [2, 5], [3, 1], [4, 2], [1, 3], [2, 4]]
    assert state.trimmed().keys_BSND.shape == (2, 4, 2, 8)


def test_gates_begin_with_memories_from_one_frame_to_a_full_block():
    memories = 1 / torch.sigmoid(gate_bias(64))
    assert memories[0] == pytest.approx(1.2)
    assert memories[-1] == pytest.approx(94.2)
    assert (memories.diff() > 0).all()
    torch.testing.assert_close(ScanMemory(64, heads=1).gate.bias, gate_bias(64))
    cell = GRUMemory(64, heads=1).cell
    torch.testing.assert_close(cell.bias_ih[64:128] + cell.bias_hh[64:128], -gate_bias(64))


@pytest.mark.parametrize("temporal", TEMPORAL)
def test_truncation_keeps_the_values_and_cuts_the_gradients_at_the_chunks(temporal):
    part = part_of(temporal)
    embeddings = draw(1, 9, 4, 16).requires_grad_()
    position, start = draw(4, 16), starts(9, (0, 7))
    whole = in_chunks(part, embeddings, position, start, None)
    cut = in_chunks(part, embeddings, position, start, 4)
    torch.testing.assert_close(cut, whole, rtol=1e-12, atol=1e-12)
    for output, oldest in ((whole, 0), (cut, 4)):
        (gradient,) = torch.autograd.grad((output[:, :, 6] * draw(16)).sum(), embeddings)
        reached = gradient[0].abs().amax(dim=(1, 2)) > 0
        assert reached.nonzero().min() == (6 if temporal == "none" else oldest)
