"""The configs of the network and its losses: every key, its type and its meaning."""

from dataclasses import dataclass, field, fields

from bload.errors import InputError

CHECKPOINTS = ("none", "backbone", "auto")


@dataclass
class ModelConfig:
    """Arguments of `models.dds.DDS`; those marked otherwise say how it begins and what it keeps."""

    name: str
    backbone: str
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
    # a file, a URL, resnet50 or resnet18: see models/weights.py
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
        if self.checkpoint not in CHECKPOINTS:
            raise InputError(
                f"model.checkpoint is {self.checkpoint!r}; choose none, backbone or auto"
            )


def computed_keys() -> tuple[str, ...]:
    """The keys that say what the model computes, its name among them."""
    return tuple(key.name for key in fields(ModelConfig) if key.metadata.get("computed", True))


@dataclass
class LossConfig:
    """Arguments of `models.criterion.Criterion`."""

    relation_weight: float
    match_boxes: str
    relations_on: str = "matched"
