"""A video of one's own, frame by frame: what a checkpoint's model predicts, in a file and drawn.

The model sees one frame at a time and carries its state on, so that memory does not grow with the
video (but for ``model.temporal=attention``, whose state is all frames so far). Its predictions are
those of the whole video as one segment of a block.

C channels, H x W pixels of the canvas, h x w of a picture.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchvision.transforms.v2 import functional as transforms
from tqdm import tqdm

from bload.errors import InputError
from datasets.annotations.targets import FrameTargets
from datasets.film import FilmWriter
from datasets.footage import FrameFolder, VideoFile, open_footage
from datasets.frames.sizes import fit
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.predictions_file import PredictionsWriter, join_parts, read_metadata
from datasets.write_whole import full_disk_named
from experiments.annotated import annotate, highest_threshold
from models.dds import DDS
from models.predict import predict
from training.checkpoint import find_checkpoints, load_model
from training.config import EvalJob
from training.ranks import Ranks, autocast

PREDICTIONS, ANNOTATED = "predictions.parquet", "annotated.mp4"
GROUP = 256
"""Frames whose predictions are kept until they are written."""


class Follower:
    """A model that is shown the frames of one video, one after another, and remembers.

    Args:
        size_hw: height and width of the canvas that it was trained on.
        precision: in which it computes.
    """

    def __init__(
        self, model: DDS, size_hw: tuple[int, int], device: torch.device, precision: torch.autocast
    ) -> None:
        self._model, self._size_hw, self._device = model.eval(), size_hw, device
        self._precision = precision
        self._number: int | None = None
        self._state: Any = None

    @torch.no_grad()
    def __call__(self, number: int, picture_hwC: np.ndarray) -> FramePrediction:
        """Predict the next frame, RGB uint8 ``(h, w, 3)``, whose number in its video is given."""
        picture_Chw = torch.tensor(picture_hwC, device=self._device).permute(2, 0, 1)
        native_hw, (high, wide) = (picture_Chw.shape[1], picture_Chw.shape[2]), self._size_hw
        height, width = fit(native_hw, self._size_hw)
        frame_CHW = picture_Chw.new_zeros(3, high, wide)
        frame_CHW[:, :height, :width] = transforms.resize(
            picture_Chw, [height, width], antialias=True
        )
        extent_2 = torch.tensor([width / wide, height / high])
        gap = 0 if self._number is None else number - self._number
        valid_BT = torch.ones(1, 1, dtype=torch.bool)
        with self._precision:
            outputs = self._model(
                frame_CHW[None, None],
                torch.tensor([[self._number is None]], device=self._device),
                valid_BT.to(self._device),
                extent_BT2=None if (extent_2 == 1).all() else extent_2.to(self._device)[None, None],
                gap_BT=torch.tensor([[float(gap)]], device=self._device),
                state=self._state,
            )
        self._number, self._state = number, outputs.state
        (prediction,) = predict(outputs, valid_BT, [native_hw])
        return prediction


def follow_video(cfg: EvalJob, ranks: Ranks) -> None:
    """Predict ``cfg.video`` into the folder ``cfg.out`` and print what was made, and how fast.

    Raises `InputError` for a video, a checkpoint or a folder that cannot be used.
    """
    video, folder = Path(cfg.video or ""), Path(cfg.out or "")  # both are given
    if ranks.world_size > 1:
        raise InputError(f"video={cfg.video} is followed by one process; start it without torchrun")
    path, *others = find_checkpoints(cfg.checkpoint)
    if others:
        raise InputError(
            f"{cfg.checkpoint} holds {1 + len(others)} checkpoints and video= takes one, such as "
            f"checkpoint={path}"
        )
    footage = open_footage(video, cfg.fps)
    made_by = {"checkpoint": str(path), "video": str(video.absolute()), "rate": footage.rate}
    prepare_folder(folder, made_by)
    model, checkpoint = load_model(path, ranks.device)
    height, width = checkpoint["config"]["dataset"]["frame_size"]
    follower = Follower(model, (height, width), ranks.device, autocast(cfg.amp, ranks.device))
    if model.temporal == "attention":
        print("model.temporal=attention keeps every frame: memory and time grow with the video")
    began = time.perf_counter()
    with full_disk_named(folder / PREDICTIONS), ranks.stop.deferred():
        frames, best = write_followed(follower, footage, folder, cfg.threshold, ranks)
        join_parts(folder / PREDICTIONS, 1, made_by)
    seconds = time.perf_counter() - began
    if footage.damage:
        print(f"{video}: {footage.damage}")
    print(
        f"{path}: {checkpoint['config']['model']['name']}, after epoch {checkpoint['epoch']}\n"
        f"{video}: {frames:,} frames looked at, {footage.rate:.4g} of each second; predicted and "
        f"drawn at {frames / seconds:,.1f} frames/s\n"
        f"predicted: {folder / PREDICTIONS}\ndrawn: {folder / ANNOTATED}"
    )
    if best < cfg.threshold:
        print(
            f"no relation is drawn: with its object none reaches threshold={cfg.threshold:g}, the "
            f"best has {best:.2g}; threshold={best / 2:.1g} would draw some"
        )


def prepare_folder(folder: Path, made_by: dict[str, Any]) -> None:
    """Make the folder; raises `InputError` if there is anything in it that another job has made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {file.name for file in folder.iterdir() if file.suffix != ".part"}
    except OSError as error:
        raise InputError(
            f"out={folder} cannot be made a folder ({error.strerror}); give another"
        ) from error
    if not found:
        return
    others = sorted(found - {PREDICTIONS, ANNOTATED}) or [ANNOTATED]
    if PREDICTIONS in found and others == [ANNOTATED]:
        said = read_metadata(folder / PREDICTIONS)
        if {key: said.get(key) for key in made_by} == made_by:
            return
        others = [f"the predictions of {said.get('checkpoint')} for {said.get('video')}"]
    raise InputError(f"out={folder} holds {others[0]}; give a new folder")


def write_followed(
    follower: Follower,
    footage: VideoFile | FrameFolder,
    folder: Path,
    threshold: float,
    ranks: Ranks,
) -> tuple[int, float]:
    """Write what is predicted, and drawn from `threshold` on.

    Returns the number of frames, and the highest threshold at which a relation would be drawn.
    """
    rows: list[tuple[FrameTargets, FramePrediction]] = []
    bar = tqdm(footage, desc="predict", unit="frame", leave=False, disable=None)
    count, best = 0, 0.0
    with (
        PredictionsWriter(folder / PREDICTIONS) as writer,
        FilmWriter(folder / ANNOTATED, footage.rate) as film,
        ThreadPoolExecutor(1) as thread,
    ):

        def draw(*drawn: Any) -> None:
            film.write(annotate(*drawn))

        drawing: Future[None] | None = None
        for number, picture_hwC in bar:
            prediction = follower(number, picture_hwC)  # the frame before is drawn meanwhile
            name = f"{footage.name}/{number:06d}.png"
            if drawing:
                drawing.result()  # raises what it raised
            drawing = thread.submit(draw, picture_hwC, prediction, threshold, name)
            count, best = count + 1, max(best, highest_threshold(prediction))
            rows.append((_unannotated(name, picture_hwC.shape[:2]), prediction))
            if len(rows) == GROUP:
                writer.write(*zip(*rows, strict=True))
                rows.clear()
            if ranks.stopping():
                raise ranks.stopped("the beginning of this video")
        if rows:
            writer.write(*zip(*rows, strict=True))
        if drawing:
            drawing.result()
    return count, best


def _unannotated(name: str, size_hw: tuple[int, int]) -> FrameTargets:
    boxes_M4, none = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    return FrameTargets(name, size_hw, np.zeros(4, np.float32), boxes_M4, none, none.reshape(0, 2))
