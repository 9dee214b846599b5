"""The DDS-style scene-graph network, its losses and its predictions."""

from models.config import LossConfig, ModelConfig, computed_keys
from models.criterion import Criterion, counts
from models.dds import DDS
from models.outputs import Outputs
from models.targets import Targets, to_tensors

__all__ = [
    "DDS",
    "Criterion",
    "Outputs",
    "Targets",
    "build_criterion",
    "build_model",
    "counts",
    "to_tensors",
]


def build_model(cfg: ModelConfig) -> DDS:
    """Build the network of a config; raises `InputError` as `models.dds.DDS` does."""
    return DDS(**{key: getattr(cfg, key) for key in computed_keys() if key != "name"})


def build_criterion(cfg: LossConfig) -> Criterion:
    """Build the losses of a config."""
    return Criterion(cfg.relations_on, cfg.relation_weight, cfg.match_boxes)
