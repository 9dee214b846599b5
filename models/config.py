"""Configs of the network and its losses: every key, its type and its meaning."""

from dataclasses import dataclass, field, fields
from pathlib import Path

from bload.errors import InputError, check_choice, check_number
from models.temporal import PARTS

BACKBONES = ("resnet50", "resnet18", "conv")
WORDS = ("detr", "resnet50", "resnet18")
"""Named weights: DETR's, with a ResNet-50, and torchvision's own."""
DETR_URL = "https://dl.fbaipublicfiles.com/detr/detr-r50-e632da11.pth"
SHARES = {"none": 0.0, "backbone": 1.0, "offload": 0.0}
"""Share of the pictures to recompute, by the values of ``model.checkpoint`` that are not
numbers."""


def share_of(choice: str) -> float:
    """Return the share of the pictures to recompute that ``model.checkpoint`` names.

    Raises:
        InputError: it is neither a name in `SHARES` nor a number from 0 to 1.
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
    """Say why ``model.weights`` cannot be read, if it names a missing file; else return ''."""
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
    are not arguments of it; those with ``defining: False`` do not change training either.
    """

    name: str  # of the config file
    backbone: str  # resnet50, resnet18 or conv (three layers, for tiny frames)
    temporal: str  # temporal part: dds, gru, attention, scan, none
    width: int  # of tokens and embeddings
    heads: int  # of attention; must divide the width
    feedforward: int  # hidden width of feed-forward layers
    encoder_layers: int  # self-attention over the tokens of a frame
    decoder_layers: int  # spatial decoder layers of each branch
    temporal_layers: int  # temporal layers of each branch
    queries: int  # person-object pairs predicted per frame
    dropout: float  # 0 to 0.99
    norm_first: bool  # norm before each sub-layer; false: after it, as in DETR
    anchored: bool  # each query starts at its own point in the frame
    dense: bool  # also train a dense side task on the encoder's tokens
    time: str = "none"  # time input of the temporal part: none, or gap
    # initial weights: a file (a run's checkpoint too), a URL, detr, resnet50 or resnet18
    weights: str | None = field(default=None, metadata={"computed": False})
    # activations of backbone and encoder to recompute: none, backbone (all), 0.3 (for that share of
    # the pictures), auto (as few as memory demands); offload: keep them in host memory instead
    checkpoint: str = field(default="none", metadata={"computed": False, "defining": False})

    # skipped: work on single frames leaves out padding; the outputs are the same
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
    """Return the keys that decide what the network computes, and its name."""
    return tuple(key.name for key in fields(ModelConfig) if key.metadata.get("computed", True))


@dataclass
class LossConfig:
    """Arguments of `models.criterion.Criterion`."""

    relation_weight: float  # weight of the relation losses beside those of boxes and classes
    match_boxes: str  # cost of boxes in matching: worst (of person and object) or sum

    def __post_init__(self) -> None:
        check_number("loss.relation_weight", self.relation_weight, 1e-9)
        check_choice("loss.match_boxes", self.match_boxes, ("worst", "sum"))
