"""The network as a whole: sizes, layers, precision, time, names."""

import torch
from torch import nn

from models import build_model
from models.network_input import NetworkInput
from tests.models.conftest import FULL, tensors, tiny


def batch(blocks: int, slots: int, side: int = 32):
    draw = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (blocks, slots, 3, side, side), generator=draw).byte()
    return frames, torch.arange(slots).expand(blocks, -1) == 0


@torch.no_grad()
def test_full_size_runs_on_a_small_frame():
    torch.manual_seed(0)
    model = build_model(FULL).eval()
    assert 0.01 < model.backbone(torch.randn(2, 3, 64, 64)).std() < 1
    outputs = model(NetworkInput(*batch(1, 2, 64)))
    assert outputs.class_logits_LBTNK.shape == (8, 1, 2, 100, 37)
    assert all(torch.isfinite(field).all() for field in tensors(outputs).values())


def test_branches_share_nothing_but_the_encoded_frames():
    model = tiny()
    model(NetworkInput(*batch(1, 2))).relation_logits_LBTNR.sum().backward()

    def learns(part: nn.Module) -> set[bool]:
        return {p.grad is not None and bool(p.grad.any()) for p in part.parameters()}

    assert learns(model.object_branch) == {False}
    assert True in learns(model.relation_branch)
    assert True in learns(model.encoder)
    assert all(parameter.grad is not None for parameter in model.relation_branch.parameters())
