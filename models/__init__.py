"""The DDS-style scene-graph network, its losses and its predictions.

torch is imported on demand, so that configs can be checked without it.
"""

from typing import TYPE_CHECKING, Any

from models.config import ModelConfig, network_keys, recomputed_share

if TYPE_CHECKING:
    from models.dds import DDS


def build_model(cfg: ModelConfig) -> "DDS":
    """Build the network of a config."""
    from models.dds import DDS

    arguments: dict[str, Any] = {key: getattr(cfg, key) for key in network_keys()}
    del arguments["name"]
    if arguments.pop("time") == "gap":
        from models.gap import GapEmbedding

        arguments["extra"] = GapEmbedding
    recomputed, offload = recomputed_share(cfg.recompute), cfg.recompute == "offload"
    return DDS(**arguments, skip_padding=cfg.skip_padding, recomputed=recomputed, offload=offload)
