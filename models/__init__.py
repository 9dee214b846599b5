"""The DDS-style scene-graph network, its losses and its predictions.

Modules that need torch are imported on demand, so that configs can be checked without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from models.config import LossConfig, ModelConfig, network_keys

if TYPE_CHECKING:
    from models.criterion import Criterion, loss_divisors
    from models.dds import DDS
    from models.targets import to_tensors

__all__ = [
    "DDS",
    "Criterion",
    "build_criterion",
    "build_model",
    "loss_divisors",
    "to_tensors",
]
_WITH_TORCH = {
    "criterion": ("Criterion", "loss_divisors"),
    "dds": ("DDS",),
    "targets": ("to_tensors",),
}


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            return getattr(import_module(f"models.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def build_model(cfg: ModelConfig, **execution: Any) -> "DDS":
    """Build the network of a config; `execution` as of `models.dds.DDS`."""
    from models.dds import DDS

    arguments = {key: getattr(cfg, key) for key in network_keys() if key != "name"}
    return DDS(**arguments, **execution)


def build_criterion(cfg: LossConfig) -> "Criterion":
    """Build the losses of a config."""
    from models.criterion import Criterion

    return Criterion(cfg.relation_weight, cfg.match_boxes)
