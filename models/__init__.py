"""The DDS-style scene-graph network, its losses and its predictions.

torch is imported on demand, so that configs can be checked without it.
"""

from typing import TYPE_CHECKING

from models.config import ModelConfig, network_keys

if TYPE_CHECKING:
    from models.dds import DDS
    from models.execution import Execution


def build_model(cfg: ModelConfig, execution: "Execution | None" = None) -> "DDS":
    """Build the network of a config."""
    from models.dds import DDS
    from models.gap import GapEmbedding

    arguments = {key: getattr(cfg, key) for key in network_keys() if key not in ("name", "time")}
    extra = GapEmbedding if cfg.time == "gap" else None
    return DDS(**arguments, extra=extra, execution=execution)
