"""The DDS-style scene-graph network, its losses and its predictions.

torch is imported on demand, so that configs can be checked without it.
"""

from typing import TYPE_CHECKING

from models.config import ModelConfig, network_keys, recomputed_share

if TYPE_CHECKING:
    from models.dds import DDS


def build_model(cfg: ModelConfig) -> "DDS":
    """Build the network of a config."""
    from models.dds import DDS
    from models.gap import GapEmbedding

    arguments = {key: getattr(cfg, key) for key in network_keys() if key not in ("name", "time")}
    extra = GapEmbedding if cfg.time == "gap" else None
    return DDS(
        **arguments,
        extra=extra,
        skip_padding=cfg.skip_padding,
        recomputed=recomputed_share(cfg.recompute),
        offload=cfg.recompute == "offload",
    )
