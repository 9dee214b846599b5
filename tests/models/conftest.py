"""Small networks and random annotations for the tests of the model.

B blocks, T slots, F frames, M objects.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import torch
from torch import Tensor, nn

from datasets.annotations.targets import FrameTargets
from models import build_model
from models.config import ModelConfig
from models.criterion import Criterion, loss_divisors
from models.dds import DDS
from models.network_input import NetworkInput
from models.outputs import Outputs
from models.targets import to_tensors
from training.compose import compose_job

SIDE = 32
SIZES = {"width": 16, "heads": 2, "feedforward": 24, "queries": 5, "dropout": 0.0}
LAYERS = {"encoder_layers": 1, "decoder_layers": 2, "temporal_layers": 2}
NAMES = {"name": "small", "backbone": "conv", "temporal": "dds"}
SMALL = ModelConfig(**NAMES, **SIZES, **LAYERS, norm_first=True, anchored=False, dense=False)
FULL = compose_job("train", ["model=dds"]).model
LOSSES = Criterion(1.0, "worst")


def tensors(outputs: Outputs) -> dict[str, Tensor]:
    """The predictions by name, without the dense task."""
    return {field.name: getattr(outputs, field.name) for field in fields(Outputs)[:5]}


def difference(first: Outputs, second: Outputs) -> float:
    """The largest between any two numbers."""
    others = tensors(second)
    return max((one - others[name]).abs().max().item() for name, one in tensors(first).items())


def gradients(model: nn.Module) -> Tensor:
    """All gradients in one vector; every parameter has one. Clears them."""
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]
    vector = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    model.zero_grad(set_to_none=True)
    return vector


def loss_of(outputs: Outputs, valid_BT: Tensor) -> Tensor:
    """The loss of a batch alone against random annotations of its valid frames."""
    targets = to_tensors(annotate(0, int(valid_BT.sum())))
    return LOSSES(outputs, targets, valid_BT, loss_divisors(targets.objects, 5))["loss"]


def tiny(**changes: int | float | bool | str) -> DDS:
    """A small network in float64 with the given changes; the same for the same changes."""
    return heard(replace(SMALL, **changes))


def heard(cfg: ModelConfig, seed: int = 0) -> DDS:
    """A network in float64 whose memories, starts and gaps are not silent, as before training."""
    torch.manual_seed(seed)
    model = build_model(cfg).double()
    for name, parameter in model.named_parameters():
        if "readout" in name or ".gap." in name or name.endswith(".start"):
            nn.init.normal_(parameter, std=0.3)
    return model


def annotate(
    seed: int, frames: int, most: int = 3, size_hw: tuple[int, int] = (30, 40)
) -> list[FrameTargets]:
    """Annotations of random frames with 1 to `most` objects each."""
    rng, (height, width), annotations = np.random.default_rng(seed), size_hw, []
    for frame in range(frames):
        objects = int(rng.integers(1, most + 1))
        low = rng.uniform(0, 0.5, size=(objects + 1, 2))
        high = low + rng.uniform(0.1, 0.5, size=(objects + 1, 2))
        boxes = np.concatenate((low, high), axis=1) * (width, height, width, height)
        relations = [
            (row, relation)
            for row in range(objects)
            for relation in (rng.integers(3), 3 + rng.integers(6), 9 + rng.integers(17))
        ]
        target = FrameTargets(
            name=f"{frame}",
            size_hw=size_hw,
            person_box_4=boxes[0].astype(np.float32),
            object_boxes_M4=boxes[1:].astype(np.float32),
            object_classes_M=rng.integers(2, 37, size=objects),
            relations_G2=np.array(relations, dtype=np.int64),
        )
        annotations.append(target)
    return annotations


def random_outputs(seed: int, *shape: int) -> Outputs:
    """Outputs ``(L, B, T, N)`` at random, float64, with gradients."""
    generator = torch.Generator().manual_seed(seed)

    def normal(channels: int) -> Tensor:
        return torch.randn(*shape, channels, generator=generator, dtype=torch.float64)

    return Outputs(
        person_boxes_LBTN4=normal(4).sigmoid().requires_grad_(),
        object_boxes_LBTN4=normal(4).sigmoid().requires_grad_(),
        class_logits_LBTNK=normal(37).requires_grad_(),
        union_boxes_LBTN4=normal(4).sigmoid().requires_grad_(),
        relation_logits_LBTNR=normal(26).requires_grad_(),
    )


def random_input(blocks: Sequence[Sequence[int]], slots: int, seed: int = 2) -> NetworkInput:
    """Random pictures of blocks, each given by the lengths of its videos."""
    start_BT, valid_BT = torch.zeros(2, len(blocks), slots, dtype=torch.bool)
    for row, lengths in enumerate(blocks):
        valid_BT[row, : sum(lengths)] = True
        start_BT[row, np.cumsum([0, *lengths])[:-1]] = True
    draw = torch.Generator().manual_seed(seed)
    frames_BTCHW = torch.randint(0, 256, (*start_BT.shape, 3, SIDE, SIDE), generator=draw).byte()
    return NetworkInput(frames_BTCHW, start_BT, valid_BT)
