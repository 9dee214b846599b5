"""Pictures of predictions: frames with true and predicted boxes, and the triplets beside them.

A picture shows one frame twice - the ground truth, then the pairs of the best predicted triplets -
and a panel. This lists the best triplets with constraint, green with a tick if one finds a true
triplet and red with a cross if not, and the true triplets that the first 20 miss. Triplets that
score below a tenth of the first are left out; boxes that lie on one another are drawn once. `Album`
makes a PNG per frame and a GIF per video, `draw_strip` shows frames of a video side by side.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from datasets.action_genome import VideoSource
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, SPATIAL
from datasets.scoring.iou import overlaps
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import top_triplets, triplet_ranks

MOST_TRIPLETS = 8
"""Most predicted triplets in the panel."""
LEAST_SHARE = 0.1
"""Least score of a triplet in the panel, as a share of the best triplet's score."""
SAME_BOX = 0.7
"""IoU from which on two boxes of one class are drawn as one, with the numbers of both."""
K = 20
"""A true triplet is missed if it is not found within the first K."""

LINES = 22
"""Lines of the panel, of `LINE` inches each."""
LINE, HEAD, COLUMN = 0.2, 0.3, 4.3  # inches; of a line, a caption, a strip's frame
_INK, _GREY, _GREEN, _RED = "#202020", "#707070", "#0a7d32", "#c62828"
_PERSON, _OBJECT = "#1565c0", "#b35900"
MILLISECONDS = 600
Box = tuple[str, str, np.ndarray]
"""Label, colour and corners."""


def spread(videos: int, count: int) -> list[int]:
    """Return `count` of the numbers ``0..videos - 1``, evenly spaced: always the same ones."""
    count = min(count, videos)
    return [(2 * i + 1) * videos // (2 * count) for i in range(count)]


class Album:
    """Collects the predictions of some videos as they pass by, to draw them afterwards."""

    def __init__(self, source: VideoSource, count: int) -> None:
        self.source = source
        self.video_targets = {
            source.videos[video]: source.targets(video, 0, int(source.lengths[video]))
            for video in spread(len(source), count)
        }
        self.names = {target.name for targets in self.video_targets.values() for target in targets}
        self.frame_predictions: dict[str, FramePrediction] = {}

    def keep(self, targets: Sequence[FrameTargets], predictions: Sequence[FramePrediction]) -> None:
        """Keep the predictions of those frames that are to be drawn."""
        for target, prediction in zip(targets, predictions, strict=True):
            if target.name in self.names:
                self.frame_predictions[target.name] = prediction

    def draw(self, folder: Path, convention: str = "inclusive") -> list[Path]:
        """Draw the videos that this rank has seen whole.

        Writes ``folder/VIDEO.gif`` and ``folder/VIDEO/000089.png`` and returns the GIFs.
        """
        gif_paths = []
        for video, targets in self.video_targets.items():
            if not all(target.name in self.frame_predictions for target in targets):
                continue
            (folder / video).mkdir(parents=True, exist_ok=True)
            thumbnails = []
            for target in targets:
                image = Image.fromarray(self.source.picture(target).permute(1, 2, 0).numpy())
                picture = draw_frame(image, target, self.frame_predictions[target.name], convention)
                picture.save((folder / target.name).with_suffix(".png"), compress_level=3)
                thumbnails.append(picture.reduce(2).quantize(256, dither=Image.Dither.NONE))
            gif_paths.append(folder / f"{video}.gif")
            frames: dict[str, Any] = {"append_images": thumbnails[1:], "duration": MILLISECONDS}
            thumbnails[0].save(gif_paths[-1], save_all=True, loop=0, **frames)
        return gif_paths


def draw_frame(
    image: Image.Image,
    target: FrameTargets,
    prediction: FramePrediction,
    convention: str = "inclusive",
    width: float = 18.0,
) -> Image.Image:
    """Draw one frame, given in native pixels, with its truth and its prediction.

    `width` is in inches of 100 pixels. Frames of one video and width have one height.
    """
    picture_height = HEAD + width / 3 * image.height / image.width
    figure = Figure((width, max(LINES * LINE, picture_height)), dpi=100)
    _draw_panels(figure.subplots(1, 3), image, target, prediction, convention)
    return _render(figure)


def draw_strip(
    images: Sequence[Image.Image],
    targets: Sequence[FrameTargets],
    predictions: Sequence[FramePrediction],
) -> Image.Image:
    """Draw frames of a video side by side, a column each: truth, prediction, triplets."""
    picture_height = HEAD + COLUMN * images[0].height / images[0].width
    figure = Figure((COLUMN * len(images), 2 * picture_height + LINES * LINE), dpi=100)
    ratios = (picture_height, picture_height, LINES * LINE)
    axes = figure.subplots(3, len(images), squeeze=False, height_ratios=ratios)
    frames = zip(images, targets, predictions, strict=True)
    for column, (image, target, prediction) in zip(axes.T, frames, strict=True):
        _draw_panels(column, image, target, prediction, "inclusive")
    return _render(figure)


def _render(figure: Figure) -> Image.Image:
    width, height = figure.get_size_inches()
    figure.subplots_adjust(0.1 / width, 0, 1 - 0.1 / width, 1 - HEAD / height, 0.02, 0.08)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def _draw_panels(
    axes: Sequence[Axes],
    image: Image.Image,
    target: FrameTargets,
    prediction: FramePrediction,
    convention: str,
) -> None:
    """Draw the truth, the prediction and the list of triplets."""
    triplets = top_triplets(prediction, target, "with", MOST_TRIPLETS, convention)
    score_K = triplets[2]
    is_listed_K = (score_K > 0) & (score_K >= LEAST_SHARE * score_K.max(initial=0))
    pair_K, relation_K, score_K, hit_K = (column_K[is_listed_K] for column_K in triplets)
    pair_numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pair_K.tolist()), 1)}
    truth = [("person", _PERSON, target.person_box_4)]
    for object_class, box_4 in zip(target.object_classes_M, target.object_boxes_M4, strict=True):
        truth.append((OBJECTS[object_class], _OBJECT, box_4))
    _draw_boxes(axes[0], image, truth, "ground truth", target.name)
    pairs = _pair_boxes(prediction, pair_numbers, {*pair_K[hit_K].tolist()})
    _draw_boxes(axes[1], image, pairs, "prediction, pairs numbered")

    lines = [(f"Best {len(pair_K)} triplets, with constraint", _INK)]
    for pair, relation, score, hit in zip(pair_K, relation_K, score_K, hit_K, strict=True):
        words = describe_triplet(relation, prediction.object_classes_P[pair])
        mark, colour = ("✓", _GREEN) if hit else ("✗", _RED)
        lines.append((f"{mark} {pair_numbers[int(pair)]}  {words}  {score:.2f}", colour))
    found_G = triplet_ranks([prediction], [target], convention)[0] < K
    count_text = f"{found_G.sum()} of {len(found_G)} true triplets"
    lines += [("", _INK), (f"Found within {K}: {count_text}", _INK)]
    for row, relation in target.relations_G2[~found_G]:
        lines.append((f"missed: {describe_triplet(relation, target.object_classes_M[row])}", _RED))
    axes[2].axis("off")
    for row, (text, colour) in enumerate(lines[:LINES]):
        place = (0.02, 1 - (row + 0.5) / LINES)
        axes[2].annotate(text, place, xycoords="axes fraction", color=colour, va="center")


def _draw_boxes(
    axes: Axes, image: Image.Image, boxes: Sequence[Box], caption: str, name: str = ""
) -> None:
    """Draw boxes, the last on top, and their labels inside the picture.

    A label is at the upper end of its box, a person's at the lower: objects lie on persons.
    """
    axes.axis("off")
    axes.set_title(caption, loc="left", color=_GREY, y=1)  # matplotlib searches for y slowly
    axes.set_title(name, loc="right", color=_INK, y=1)
    axes.imshow(image, extent=(0, image.width, image.height, 0))
    for _, colour, (x1, y1, x2, y2) in boxes:
        axes.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, color=colour, lw=2))
    for label, colour, (x1, y1, x2, y2) in boxes:
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


def _pair_boxes(
    prediction: FramePrediction, pair_numbers: dict[int, int], hits: set[int]
) -> list[Box]:
    """Return label, colour and box of the people and objects of numbered pairs, the best one last.

    Boxes of one class that lie on one another become the best pair's box, with the numbers of all.
    An object is green if a triplet of such a pair finds a true one, else red.
    """
    groups: list[tuple[int, np.ndarray, list[int]]] = []  # class 0: the subject
    for pair in pair_numbers:
        people, objects = prediction.person_boxes_P4[pair], prediction.object_boxes_P4[pair]
        object_class = int(prediction.object_classes_P[pair])
        for box_class, box_4 in ((0, people), (object_class, objects)):
            for group_class, group_4, pairs in groups:
                if group_class == box_class and overlaps(box_4, group_4) >= SAME_BOX:
                    pairs.append(pair)
                    break
            else:
                groups.append((box_class, box_4, [pair]))
    boxes = []
    for box_class, box_4, pairs in reversed(groups):
        numbers = ", ".join(str(pair_numbers[pair]) for pair in pairs)
        label, colour = f"{numbers} person", _PERSON
        if box_class:
            label = f"{numbers} {OBJECTS[box_class]} {prediction.object_scores_P[pairs[0]]:.2f}"
            colour = _GREEN if hits.intersection(pairs) else _RED
        boxes.append((label, colour, box_4))
    return boxes


def describe_triplet(relation: int, object_class: int) -> str:
    """Name the triplet of a person and an object, from subject to object."""
    name, ends = RELATIONS[relation].replace("_", " "), ("person", OBJECTS[object_class])
    first, last = ends[::-1] if SPATIAL.start <= relation < SPATIAL.stop else ends
    return f"{first} - {name} - {last}"
