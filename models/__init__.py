"""The DDS-style scene-graph network, its losses and its predictions.

torch is imported on demand, so that configs can be checked without it.
"""

from typing import TYPE_CHECKING, Any

from models.config import ModelConfig

if TYPE_CHECKING:
    from models.dds import DDS


def build_model(cfg: ModelConfig, **options: Any) -> "DDS":
    """Build the network of a config, with those arguments of `DDS` that are none of its keys."""
    from models.dds import DDS

    keys = {key: value for key, value in vars(cfg).items() if key not in ("name", "weights")}
    return DDS(**keys, **options)
