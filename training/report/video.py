"""Pictures of a run: predictions on one unseen video, still and moving."""

import io
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from bload import Batch, Block, BlockDataset, collate_blocks
from datasets.action_genome import VideoSource
from datasets.build import build_source, saved_config
from datasets.letterbox import Letterbox
from datasets.scoring.prediction import FramePrediction
from models.config import ModelConfig
from training.build import build_inputs
from training.checkpoint import load_model
from training.evaluation import predict_batch
from training.ranks import autocast
from training.report.frames import MILLISECONDS, draw_frame, draw_strip, spread
from training.sidings.ablations import Ablation

STILLS, MOVING = 3, 24
"""Frames side by side, and the most in the moving picture."""
CANDIDATES = 4
"""Videos considered on either side of the median length."""
WIDTH = 12.0
"""Width of the moving picture, in inches of 100 pixels."""


def draw_run(
    checkpoint: Path, device: torch.device, source: VideoSource | None = None
) -> tuple[bytes, bytes]:
    """Draw a checkpoint's predictions on the video that `representative_video` chooses.

    Args:
        source: the split of the run's figures; None opens it, and makes no data.

    Returns:
        Frames from the whole video side by side as PNG; its first frames as an animated WebP.

    Raises:
        InputError: the checkpoint or the data cannot be read.
    """
    print(f"drawing what {checkpoint} predicts", file=sys.stderr)
    model, saved = load_model(checkpoint, device)
    if source is None:
        dataset = saved_config(saved["config"]["dataset"])
        source = build_source(dataset, dataset.splits[1])
    video = representative_video(source)
    batch = read_video(source, video, int(source.lengths[video]))
    predictions = predict_video(model, source, batch, saved["config"], device)
    targets = batch.targets
    images = [
        Image.fromarray(source.picture(target).permute(1, 2, 0).numpy()) for target in targets
    ]
    frames = [*zip(images, targets, predictions, strict=True)]
    still_frames = [frames[index] for index in spread(len(frames), STILLS)]
    strip_image = draw_strip(*zip(*still_frames, strict=True))
    strip_image.save(png := io.BytesIO(), "png")
    moving_frames = [draw_frame(*frame, width=WIDTH) for frame in frames[:MOVING]]
    options = {
        "append_images": moving_frames[1:],
        "duration": MILLISECONDS,
        "loop": 0,
        "quality": 50,
    }
    moving_frames[0].save(webp := io.BytesIO(), "webp", save_all=True, **options)
    return png.getvalue(), webp.getvalue()


def representative_video(source: VideoSource) -> int:
    """Return the video, of about median length, with the most objects in its first frame."""
    middle, order = len(source) // 2, np.argsort(source.lengths, kind="stable")
    candidates = order[max(0, middle - CANDIDATES) : middle + CANDIDATES + 1].tolist()
    return max(candidates, key=lambda video: len(source.targets(video, 0, 1)[0].object_classes_M))


def read_video(source: VideoSource, video: int, frames: int) -> Batch:
    """Read the first frames of a video as a batch of one full block."""
    sequence, first, length = (np.array([number]) for number in (video, 0, frames))
    return collate_blocks([BlockDataset(source)[Block(0, frames, sequence, first, length)]])


@torch.no_grad()
def predict_video(
    model: nn.Module, source: VideoSource, batch: Batch, config: dict, device: torch.device
) -> list[FramePrediction]:
    """Predict the frames of a batch as evaluation does; `config` is the run's."""
    train = config["train"]
    inputs = build_inputs(ModelConfig(**config["model"]), Letterbox(source), device)
    ablation = Ablation(train["starts"], seed=train["seed"])
    precision = autocast(train["amp"], device)
    return predict_batch(model.eval(), ablation(batch), inputs, precision)()
