"""A network that no run keeps, for measurements."""

from datasets.action_genome import VideoSource
from datasets.build import build_letterbox
from models import build_criterion
from training.build import (
    Training,
    build_execution,
    build_inputs,
    build_network,
    build_training,
    choose_kernels,
)
from training.config import TrainJob
from training.ranks import Ranks


def build_separate_training(
    cfg: TrainJob, source: VideoSource, ranks: Ranks, one_shape: bool = False
) -> Training:
    """Build a separate network and all that trains it.

    Args:
        one_shape: True if all batches have one shape, see `choose_kernels`.
    """
    choose_kernels(cfg.train.amp, cfg.train.deterministic, one_shape)
    model = build_network(cfg, ranks.device, build_execution(cfg, ranks.world_size))
    letterbox = build_letterbox(source, cfg.dataset.augment, cfg.train.seed)
    inputs = build_inputs(cfg.model, letterbox, ranks.device, cfg.train)
    return build_training(cfg.train, ranks, model, build_criterion(cfg.loss), inputs)
