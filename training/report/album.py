"""Pictures of predictions: frames of a video side by side, a column each.

A column shows the truth, the pairs of the best predicted triplets, and a list of these triplets
with constraint, green with a tick if one finds a true triplet and red with a cross if not. Triplets
that score below a tenth of the first are left out.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, SPATIAL
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import top_triplets
from datasets.source import VideoSource

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STILLS = 3
"""Frames of a video in its picture."""
MOST_TRIPLETS, LEAST_SHARE = 8, 0.1
"""Most predicted triplets in a list, and the least of their scores as a share of the best one's."""
LINES, LINE, HEAD, COLUMN = 9, 0.2, 0.3, 4.3
"""Lines of a list; inches of a line, of a caption, and of a column's width."""
INK, PERSON, OBJECT, GREEN, RED = "#202020", "#1565c0", "#b35900", "#0a7d32", "#c62828"
Still = tuple[Image.Image, FrameTargets, FramePrediction]
Box = tuple[str, str, np.ndarray]
"""Label, colour and corners."""


def evenly_spaced(total: int, count: int) -> list[int]:
    """Return `count` of the numbers ``0..total - 1``, evenly spaced: always the same ones."""
    count = min(count, total)
    return [(2 * i + 1) * total // (2 * count) for i in range(count)]


class Album:
    """Collects predictions on frames of some videos as they pass by, to draw them afterwards."""

    def __init__(self, source: VideoSource, count: int, iou: str = "inclusive") -> None:
        self.source, self.iou = source, iou
        self.video_targets: dict[str, list[FrameTargets]] = {}
        for video in evenly_spaced(len(source), count):
            targets = source.videos[video].frames
            stills = [targets[index] for index in evenly_spaced(len(targets), STILLS)]
            self.video_targets[source.names[video]] = stills
        self.names = {target.name for targets in self.video_targets.values() for target in targets}
        self.frame_predictions: dict[str, FramePrediction] = {}

    def keep(self, targets: Sequence[FrameTargets], predictions: Sequence[FramePrediction]) -> None:
        """Keep the predictions of those frames that are to be drawn."""
        for target, prediction in zip(targets, predictions, strict=True):
            if target.name in self.names:
                self.frame_predictions[target.name] = prediction

    def save(self, folder: Path) -> None:
        """Write ``folder/VIDEO.png`` for each video that this rank has seen."""
        for video, figure in self.draw():
            folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(folder / f"{video}.png")
            print(f"written: {folder / video}.png")

    def draw(self) -> Iterator[tuple[str, "Figure"]]:
        """Yield name and picture of each video that this rank has seen."""
        for video, targets in self.video_targets.items():
            if all(target.name in self.frame_predictions for target in targets):
                pixels = (self.source.files.frame(target).permute(1, 2, 0) for target in targets)
                images = (Image.fromarray(pixels_HWC.numpy()) for pixels_HWC in pixels)
                predictions = [self.frame_predictions[target.name] for target in targets]
                frames = zip(images, targets, predictions, strict=True)
                yield video, draw_strip([*frames], self.iou)


def draw_strip(frames: Sequence[Still], iou: str) -> "Figure":
    """Draw frames of a video, given in native pixels, side by side."""
    from matplotlib.figure import Figure  # once training has ended

    height = HEAD + COLUMN * frames[0][0].height / frames[0][0].width
    width, heights = COLUMN * len(frames), (height, height, LINES * LINE)
    figure = Figure((width, sum(heights)), dpi=100)
    axes = figure.subplots(3, len(frames), squeeze=False, height_ratios=heights)
    for column, frame in zip(axes.T, frames, strict=True):
        draw_frame(column, frame, iou)
    margin = 0.1 / width
    figure.subplots_adjust(margin, 0, 1 - margin, 1 - HEAD / sum(heights), 0.02, 0.08)
    return figure


def draw_frame(axes: Sequence["Axes"], frame: Still, iou: str) -> None:
    """Draw the truth, the prediction and the list of triplets, one below another."""
    image, target, prediction = frame
    triplets = top_triplets(prediction, target, "with", MOST_TRIPLETS, iou)
    score_K = triplets[2]
    is_listed_K = (score_K > 0) & (score_K >= LEAST_SHARE * score_K.max(initial=0))
    pair_K, relation_K, score_K, hit_K = (column_K[is_listed_K] for column_K in triplets)
    numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pair_K.tolist()), 1)}
    truth = [("person", PERSON, target.person_box_4)]
    for object_class, box_4 in zip(target.object_classes_M, target.object_boxes_M4, strict=True):
        truth.append((OBJECTS[object_class], OBJECT, box_4))
    draw_boxes(axes[0], image, truth, f"truth, {target.name}")
    draw_boxes(axes[1], image, pair_boxes(prediction, numbers, {*pair_K[hit_K]}), "prediction")

    lines = [(f"Best {len(pair_K)} triplets, with constraint", INK)]
    for pair, relation, score, hit in zip(pair_K, relation_K, score_K, hit_K, strict=True):
        name = RELATIONS[relation].replace("_", " ")
        ends = ("person", OBJECTS[prediction.object_classes_P[pair]])
        first, last = ends[::-1] if SPATIAL.start <= relation < SPATIAL.stop else ends
        mark, colour = ("✓", GREEN) if hit else ("✗", RED)
        lines.append(
            (f"{mark} {numbers[int(pair)]}  {first} - {name} - {last}  {score:.2f}", colour)
        )
    axes[2].axis("off")
    for row, (text, colour) in enumerate(lines[:LINES]):
        xy = (0.02, 1 - (row + 0.5) / LINES)
        axes[2].annotate(text, xy, xycoords="axes fraction", color=colour, va="center")


def draw_boxes(axes: "Axes", image: Image.Image, boxes: Sequence[Box], caption: str) -> None:
    """Draw boxes, the last on top, and their labels inside the picture, persons' at their feet."""
    axes.axis("off")
    axes.set_title(caption, loc="left", color=INK, y=1)  # matplotlib searches for y slowly
    axes.imshow(image, extent=(0, image.width, image.height, 0))
    axes.autoscale(False)
    for label, colour, (x1, y1, x2, y2) in boxes:
        axes.plot([x1, x2, x2, x1, x1], [y1, y1, y2, y2, y1], color=colour, lw=2)
        is_right, is_person = x1 > 0.7 * image.width, label.endswith("person")
        axes.text(
            min(x2, image.width) if is_right else max(x1, 0),
            min(y2, image.height) if is_person else max(y1, 0),
            label,
            color="white",
            ha="right" if is_right else "left",
            va="bottom" if is_person else "top",
            bbox={"facecolor": colour, "edgecolor": colour, "pad": 1},
        )


def pair_boxes(prediction: FramePrediction, numbers: dict[int, int], hits: set[int]) -> list[Box]:
    """Return boxes of the best pair's person and of the objects of all, the best one's last.

    An object is green if a triplet of its pair finds a true one, else red.
    """
    boxes = []
    for pair, number in reversed(numbers.items()):
        words = f"{number} {OBJECTS[prediction.object_classes_P[pair]]}"
        label = f"{words} {prediction.object_scores_P[pair]:.2f}"
        boxes.append((label, GREEN if pair in hits else RED, prediction.object_boxes_P4[pair]))
    people = [("person", PERSON, prediction.person_boxes_P4[pair]) for pair in [*numbers][:1]]
    return people + boxes
