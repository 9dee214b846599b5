"""The configs of the network and its losses: every key, its type and its meaning."""

from dataclasses import dataclass, field, fields

from bload.errors import InputError, check_choice
from models.backbone import BACKBONES
from models.temporal import PARTS


@dataclass
class ModelConfig:
    """A name and the arguments of `models.dds.DDS`.

    Fields with ``computed: False`` in their metadata do not change what the network computes, and
    are no arguments of it; ``defining: False`` marks those that do not change training either.
    """

    name: str
    backbone: str  # a key of `models.backbone.BACKBONES`
    temporal: str  # a key of `models.temporal.PARTS`
    width: int
    heads: int
    feedforward: int
    encoder_layers: int
    decoder_layers: int
    temporal_layers: int
    queries: int
    dropout: float
    norm_first: bool
    anchored: bool
    dense: bool
    time: str = "none"  # time input of the temporal part: none, or gap
    # initial weights: a file, a URL, resnet50 or resnet18, see models/weights.py
    weights: str | None = field(default=None, metadata={"computed": False})
    # recompute activations: none, backbone (and encoder), auto: if memory is short
    checkpoint: str = field(default="none", metadata={"computed": False, "defining": False})

    def __post_init__(self) -> None:
        least = {"width": 4, "heads": 1, "feedforward": 1, "queries": 1, "dropout": 0}
        least |= {"encoder_layers": 1, "decoder_layers": 1, "temporal_layers": 1}
        for key, bound in least.items():
            if getattr(self, key) < bound:
                raise InputError(f"model.{key} is {getattr(self, key)}; give at least {bound}")
        if self.dropout >= 1:
            raise InputError(f"model.dropout is {self.dropout}; give less than 1")
        if self.width % self.heads:
            raise InputError(f"model.heads is {self.heads}; give a divisor of width {self.width}")
        check_choice("model.backbone", self.backbone, BACKBONES)
        check_choice("model.temporal", self.temporal, PARTS)
        check_choice("model.time", self.time, ("none", "gap"))
        check_choice("model.checkpoint", self.checkpoint, ("none", "backbone", "auto"))


def computed_keys() -> tuple[str, ...]:
    """The keys that decide what the network computes, and its name."""
    return tuple(key.name for key in fields(ModelConfig) if key.metadata.get("computed", True))


@dataclass
class LossConfig:
    """Arguments of `models.criterion.Criterion`."""

    relation_weight: float
    match_boxes: str  # worst or sum
    relations_on: str = "matched"  # or all

    def __post_init__(self) -> None:
        if not self.relation_weight > 0:
            raise InputError(f"loss.relation_weight is {self.relation_weight}; give more than 0")
        check_choice("loss.match_boxes", self.match_boxes, ("worst", "sum"))
        check_choice("loss.relations_on", self.relations_on, ("matched", "all"))
