"""Configs of the network and its losses: every key, its type and its meaning."""

from dataclasses import dataclass

from bload.errors import InputError
from datasets.config_fields import Checked, choice, key, number
from models.temporal import TEMPORAL_PARTS

BACKBONES = ("resnet50", "resnet18", "conv")
NAMED_WEIGHTS = ("detr", "resnet50", "resnet18")
"""Named weights: DETR's, with a ResNet-50, and torchvision's own."""
DETR_URL = "https://dl.fbaipublicfiles.com/detr/detr-r50-e632da11.pth"
LAYERS = (1, 100)


@dataclass
class ModelConfig(Checked):
    """Arguments of `models.dds.DDS`, and the name of the network and its initial weights."""

    prefix = "model."

    name: str = key("of the config file")
    backbone: str = choice(BACKBONES, "for single frames; conv has three layers, for tiny ones")
    temporal: str = choice(TEMPORAL_PARTS, "how frames know of earlier ones")
    width: int = number(4, 2**16, "of tokens and embeddings")
    heads: int = number(1, 2**16, "of attention; must divide the width")
    feedforward: int = number(1, 2**20, "hidden width of feed-forward layers")
    encoder_layers: int = number(*LAYERS, "self-attention over the tokens of a frame")
    decoder_layers: int = number(*LAYERS, "spatial decoder layers of each branch")
    temporal_layers: int = number(*LAYERS, "temporal layers of each branch")
    queries: int = number(1, 10_000, "person-object pairs predicted per frame")
    dropout: float = number(0, 0.99, "in attention and feed-forward")
    norm_first: bool = key("norm before each sub-layer; false: after it, as in DETR")
    anchored: bool = key("each query starts at its own point in the frame")
    dense: bool = key("also train a dense side task on the encoder's tokens")
    time: str = choice(("none", "gap"), "time input of the temporal part", "none")
    weights: str | None = key("initial weights: a file, a URL, detr, resnet50 or resnet18", None)
    recompute: str = choice(
        ("none", "backbone", "auto", "offload"),
        "activations to recompute; auto: as few as must be; offload: keep them on the host",
        "none",
        defining=False,
    )
    skip_padding: bool = key(
        "true: backbone, encoder and spatial decoders leave padding out, with the same outputs",
        False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads or self.width % 4:
            raise InputError(f"4 and model.heads={self.heads} must divide model.width={self.width}")


@dataclass
class LossConfig(Checked):
    """Arguments of `models.criterion.Criterion`."""

    prefix = "loss."

    relation_weight: float = number(
        1e-9, None, "weight of the relation losses beside those of boxes and classes"
    )
    match_boxes: str = choice(
        ("worst", "sum"), "cost of boxes in matching; worst: of person and object"
    )
