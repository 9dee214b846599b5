"""The DDS-style scene-graph network, its losses and its predictions."""

from models.criterion import Criterion, counts
from models.dds import DDS
from models.outputs import Outputs
from models.targets import Targets, to_tensors

__all__ = ["DDS", "Criterion", "Outputs", "Targets", "build_model", "counts", "to_tensors"]


def build_model(**sizes: int | float | bool | str) -> DDS:
    """Build the network from the flat values of a model config, see `models.dds.DDS`."""
    return DDS(**sizes)
