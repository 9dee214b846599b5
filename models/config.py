"""The configs of the network and its losses: every key, its type and its meaning."""

from dataclasses import dataclass, field, fields
from pathlib import Path

from bload.errors import InputError, check_choice, check_number
from models.temporal import PARTS

BACKBONES = ("resnet50", "resnet18", "conv")
WORDS = ("detr", "resnet50", "resnet18")
"""Weights with names: DETR's, with a ResNet-50, and torchvision's own."""
DETR_URL = "https://dl.fbaipublicfiles.com/detr/detr-r50-e632da11.pth"
SHARES = {"none": 0.0, "backbone": 1.0, "offload": 0.0}
"""Share of the pictures to recompute, by the values of ``model.checkpoint`` that are no number."""


def share_of(choice: str) -> float:
    """Return the share of the pictures to recompute that ``model.checkpoint`` names.

    Raises:
        InputError: it is no name in `SHARES` and no number from 0 to 1.
    """
    if choice in SHARES:
        return SHARES[choice]
    try:
        share = float(choice)
    except ValueError as error:
        raise InputError(
            f"model.checkpoint is {choice!r}; choose none, backbone, auto, offload or, as "
            "the share of the pictures to recompute, 0 to 1"
        ) from error
    check_number("model.checkpoint", share, 0, 1)
    return share


def missing_weights(weights: str | None) -> str:
    """Why ``model.weights`` cannot be read, if it is a file that is not there; else nothing."""
    if weights is None or weights in WORDS or "://" in weights or Path(weights).is_file():
        return ""
    return (
        f"there is no file {weights}; model.weights takes a file (a run's checkpoint once that run "
        f"is trained), a URL, {', '.join(WORDS)} or null; DETR's file is {DETR_URL}"
    )


@dataclass
class ModelConfig:
    """A name and the arguments of `models.dds.DDS`.

    Fields with ``computed: False`` in their metadata do not change what the network computes, and
    are no arguments of it; ``defining: False`` marks those that do not change training either.
    """

    name: str  # that of the config file
    backbone: str  # resnet50, resnet18 or conv (three layers, for tiny frames)
    temporal: str  # what reaches a frame of those before: dds, gru, attention, scan, none
    width: int  # of tokens and embeddings
    heads: int  # of attention; a divisor of the width
    feedforward: int  # width inside of feedforward layers
    encoder_layers: int  # over the tokens of a frame
    decoder_layers: int  # spatial, of each of the two branches
    temporal_layers: int  # of each branch
    queries: int  # pairs of a person and an object that may be found in a frame
    dropout: float  # 0 to 0.99
    norm_first: bool  # layers begin with their norm; false: as in DETR, they end with it
    anchored: bool  # queries begin at points of their own in the frame
    dense: bool  # a dense side task is trained on the encoder's tokens as well
    time: str = "none"  # time input of the temporal part: none, or gap
    # initial weights: a file (a run's checkpoint too), a URL, detr, resnet50 or resnet18
    weights: str | None = field(default=None, metadata={"computed": False})
    # activations of backbone and encoder to recompute: none, backbone (all), 0.3 (of that share of
    # the pictures), auto (as few as memory demands); offload: they wait in host memory
    checkpoint: str = field(default="none", metadata={"computed": False, "defining": False})

    # skipped: what sees one frame alone leaves padding out; the outputs are the same
    padding: str = field(default="computed", metadata={"computed": False})

    def __post_init__(self) -> None:
        layers = ("encoder_layers", "decoder_layers", "temporal_layers")
        bounds: dict[str, tuple[float, float]] = {
            **{"width": (4, 2**16), "heads": (1, 2**16), "feedforward": (1, 2**20)},
            **{"queries": (1, 10_000), "dropout": (0, 0.99), **dict.fromkeys(layers, (1, 100))},
        }
        for key, (least, most) in bounds.items():
            check_number(f"model.{key}", getattr(self, key), least, most)
        if self.width % self.heads:
            raise InputError(f"model.heads is {self.heads}; give a divisor of width {self.width}")
        check_choice("model.backbone", self.backbone, BACKBONES)
        check_choice("model.temporal", self.temporal, PARTS)
        check_choice("model.time", self.time, ("none", "gap"))
        check_choice("model.padding", self.padding, ("computed", "skipped"))
        if self.checkpoint != "auto":
            share_of(self.checkpoint)


def computed_keys() -> tuple[str, ...]:
    """The keys that decide what the network computes, and its name."""
    return tuple(key.name for key in fields(ModelConfig) if key.metadata.get("computed", True))


@dataclass
class LossConfig:
    """Arguments of `models.criterion.Criterion`."""

    relation_weight: float  # of the losses of relations, beside those of boxes and classes
    match_boxes: str  # cost of a pair when matched: the worst of its parts, or their sum

    def __post_init__(self) -> None:
        check_number("loss.relation_weight", self.relation_weight, 1e-9)
        check_choice("loss.match_boxes", self.match_boxes, ("worst", "sum"))
