"""Every temporal part by itself: streams, single slots, half precision, and what each computes.

B blocks, T slots, N queries, D width.
"""

import pytest
import torch
from torch import nn

from models.temporal import TEMPORAL_PARTS
from models.temporal.gru import GRUMemory
from models.temporal.layers import gate_bias
from models.temporal.scan import ScanMemory
from tests.models.conftest import gradients, tiny


def part_of(temporal: str, **changes) -> nn.Module:
    return tiny(temporal=temporal, **changes).object_branch.temporal


def draw(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def starts(slots: int, *rows: tuple[int, ...]) -> torch.Tensor:
    """A start table ``(B, T)`` with the starts of each row."""
    start_BT = torch.zeros(len(rows), slots, dtype=torch.bool)
    for row, slots_of_row in enumerate(rows):
        start_BT[row, list(slots_of_row)] = True
    return start_BT


@pytest.mark.parametrize("temporal", TEMPORAL_PARTS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_stream_in_chunks_equals_its_block(temporal, norm_first):
    part = part_of(temporal, norm_first=norm_first)
    embeddings, position = draw(3, 11, 4, 16), draw(4, 16)
    # Starts in mid-chunk, on the border of chunks, a row that begins in mid-video, and padding.
    start = starts(11, (0, 5), (0, 3, 4, 9), ())
    whole, _ = part(embeddings, position, start)
    (whole * draw(*whole.shape)).sum().backward()
    assert all(parameter.grad.any() for parameter in part.parameters())
    for chunks in ((1,) * 11, (3, 1, 5, 2)):
        outputs, state, slot = [], None, 0
        for chunk in chunks:
            inside = slice(slot, slot + chunk)
            output, state = part(embeddings[:, inside], position, start[:, inside], state)
            outputs.append(output)
            slot += chunk
        assert (torch.cat(outputs, dim=2) - whole).abs().max() < 1e-12


@pytest.mark.parametrize("temporal", TEMPORAL_PARTS)
def test_half_precision_stays_close_over_a_full_block(temporal):
    part = part_of(temporal).float()
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


def test_a_query_of_dds_attends_to_memories_by_its_own_position():
    layer = part_of("dds").layers[0]
    # Else positions would be in these already.
    layer.encode_present = lambda embeddings, *_: embeddings
    nn.init.normal_(layer.memory_attn.in_proj_weight)
    nn.init.constant_(layer.present_gate.bias, 100)  # else a query would know its own memory
    embeddings, position = draw(1, 2, 2, 16), draw(2, 16)
    embeddings[:, 1] = embeddings[:, 1, :1]
    for position_ND, alike in ((position, False), (position[:1].expand(2, -1), True)):
        one, other = layer(embeddings, position_ND, starts(2, (0,)), None)[0][0, 1]
        changed = (one - other).abs().max()
        assert changed < 1e-12 if alike else changed > 1e-3


def test_gates_begin_with_memories_from_one_frame_to_a_full_block():
    memories = 1 / torch.sigmoid(gate_bias(64))
    assert memories[0] == pytest.approx(1.2)
    assert memories[-1] == pytest.approx(94.2)
    assert (memories.diff() > 0).all()
    torch.testing.assert_close(ScanMemory(64, heads=1).gate.bias, gate_bias(64))
    cell = GRUMemory(64, heads=1).cell
    torch.testing.assert_close(cell.bias_ih[64:128] + cell.bias_hh[64:128], -gate_bias(64))
