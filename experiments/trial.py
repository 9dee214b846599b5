"""A training step on trial: timed on frames of noise, on the device that is here."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from datasets.action_genome import VideoSource
from datasets.annotations.read import FRAMES_FOLDER, Video
from training.config import TrainJob
from training.fit import batches_of, time_batch, train_apart
from training.ranks import Ranks


def time_step(
    cfg: TrainJob, videos: Sequence[Video], shape: tuple[int, int], share: float, ranks: Ranks
) -> float:
    """Return the seconds of a forward and backward pass, the shortest of three.

    The targets are those of some `videos`; their frames, which need not be there, are noise of
    their sizes.

    Args:
        shape: blocks of the step, and slots of a block; all hold frames.
        share: of the pictures, which are recomputed.
    """
    blocks, slots = shape
    rng = np.random.default_rng(0)
    chosen: list[Video] = []
    for number in rng.permutation(len(videos)):
        chosen.append(videos[number])
        if sum(len(video.frames) for video in chosen) >= slots:
            break
    with TemporaryDirectory(prefix="bload_") as root:
        for frame in (frame for video in chosen for frame in video.frames):
            path = Path(root, FRAMES_FOLDER, frame.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = rng.integers(0, 256, (*frame.size_hw, 3), dtype=np.uint8)
            Image.fromarray(noise).save(path, "PNG", compress_level=1)
        height, width = cfg.dataset.frame_size
        source = VideoSource(root, "train", chosen, (height, width))
        (batch,) = batches_of(source, [(blocks, slots, 1.0)])
        training = train_apart(cfg, source, ranks)
        training.model.recompute = share
        return time_batch(training, batch)
