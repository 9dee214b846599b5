"""The DDS-style scene-graph network, its losses and its predictions.

torch is imported on demand, so that configs can be checked without it.
"""

from typing import TYPE_CHECKING, Any

from models.config import ModelConfig, network_keys

if TYPE_CHECKING:
    from models.dds import DDS


def build_model(cfg: ModelConfig) -> "DDS":
    """Build the network of a config."""
    from models.dds import DDS

    arguments: dict[str, Any] = {key: getattr(cfg, key) for key in network_keys()}
    del arguments["name"]
    return DDS(**arguments, skip_padding=cfg.skip_padding, recompute=cfg.recompute)
