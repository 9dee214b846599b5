"""The DDS-style scene-graph network, its losses and its predictions.

torch is imported on demand, so that configs can be checked without it.
"""

from typing import TYPE_CHECKING

from models.config import LossConfig, ModelConfig, network_keys

if TYPE_CHECKING:
    from models.criterion import Criterion
    from models.dds import DDS
    from models.execution import Execution


def build_model(cfg: ModelConfig, execution: "Execution | None" = None) -> "DDS":
    """Build the network of a config."""
    from models.dds import DDS
    from models.gap import GapEmbedding

    arguments = {key: getattr(cfg, key) for key in network_keys() if key not in ("name", "time")}
    extra = GapEmbedding if cfg.time == "gap" else None
    return DDS(**arguments, extra=extra, execution=execution)


def build_criterion(cfg: LossConfig) -> "Criterion":
    """Build the losses of a config."""
    from models.criterion import Criterion

    return Criterion(cfg.relation_weight, cfg.match_boxes)
