"""Pictures of predictions: frames with true and predicted boxes, and the triplets beside them.

A picture shows one frame twice - the ground truth, then the pairs of the best predicted triplets -
and a panel: the best triplets with constraint, green with a tick where one finds a true triplet and
red with a cross where not, and the true triplets that the first 20 miss. Of the best triplets those
count that score at least a tenth of the first one; boxes that lie on one another are drawn once.
One PNG per frame for print, one GIF per video; or frames of a video side by side, or moving.
"""

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

from datasets.action_genome import VideoSource
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, SPATIAL
from datasets.scoring.iou import overlaps
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import top_triplets, triplet_ranks

SHOWN = 8
"""Predicted triplets in the panel."""
LEAST = 0.1
"""Share of the best triplet's score that one needs to be shown, and its pair to be drawn."""
SAME = 0.7
"""Two boxes of one class whose IoU is at least this are drawn as one, with the numbers of both."""
WITHIN = 20
"""A true triplet counts as missed when it is not found within so many."""

_LINES = 22  # of the panel
_INK, _GREY, _GREEN, _RED = "#202020", "#707070", "#0a7d32", "#c62828"
_PERSON, _OBJECT = "#1565c0", "#b35900"
_MILLISECONDS = 600
Box = tuple[str, str, np.ndarray]
"""Label, colour and corners."""
_QUALITIES = (80, 50, 25)  # of WebP, tried one after another


def spread(videos: int, count: int) -> list[int]:
    """Return `count` of the numbers ``0..videos - 1``, evenly spaced: always the same ones."""
    count = min(count, videos)
    return [(2 * i + 1) * videos // (2 * count) for i in range(count)]


class Album:
    """Keeps what is predicted for some videos while it passes by, to draw them afterwards."""

    def __init__(self, source: VideoSource, count: int) -> None:
        self.source = source
        self.targets_of = {
            source.videos[video]: source.targets(video, 0, int(source.lengths[video]))
            for video in spread(len(source), count)
        }
        self.wanted = {target.name for targets in self.targets_of.values() for target in targets}
        self.prediction_of: dict[str, FramePrediction] = {}

    def keep(self, targets: Sequence[FrameTargets], predictions: Sequence[FramePrediction]) -> None:
        """Keep the predictions for those of any frames that are to be drawn."""
        for target, prediction in zip(targets, predictions, strict=True):
            if target.name in self.wanted:
                self.prediction_of[target.name] = prediction

    def draw(self, folder: Path, convention: str = "inclusive") -> list[Path]:
        """Draw the videos that were seen whole (other ranks see others).

        Writes ``folder/VIDEO.gif`` and ``folder/VIDEO/000089.png`` and returns the GIFs.
        """
        drawn = []
        for video, targets in self.targets_of.items():
            if not all(target.name in self.prediction_of for target in targets):
                continue
            (folder / video).mkdir(parents=True, exist_ok=True)
            small = []
            for target in targets:
                image = Image.fromarray(self.source.picture(target).permute(1, 2, 0).numpy())
                picture = draw_frame(image, target, self.prediction_of[target.name], convention)
                picture.save((folder / target.name).with_suffix(".png"), compress_level=3)
                small.append(picture.reduce(2).quantize(256, dither=Image.Dither.NONE))
            drawn.append(folder / f"{video}.gif")
            rest, time = small[1:], _MILLISECONDS
            small[0].save(drawn[-1], save_all=True, append_images=rest, duration=time, loop=0)
        return drawn


def draw_frame(
    image: Image.Image,
    target: FrameTargets,
    prediction: FramePrediction,
    convention: str = "inclusive",
    width: int = 2600,
) -> Image.Image:
    """Draw one frame, given in native pixels, with what is true and what is predicted.

    Frames of one video that are drawn in one width (in pixels) have one height.
    """
    return _joined(_panels(image, target, prediction, convention, width // 3, _LINES), "across")


def draw_strip(
    images: Sequence[Image.Image],
    targets: Sequence[FrameTargets],
    predictions: Sequence[FramePrediction],
    convention: str = "inclusive",
) -> Image.Image:
    """Draw frames of a video side by side, a column each: truth, prediction, triplets."""
    frames = zip(images, targets, predictions, strict=True)
    columns = [_joined(_panels(*frame, convention, 430), "down") for frame in frames]
    return _joined(columns, "across")


def moving(frames: Sequence[Image.Image], most: int) -> bytes:
    """The frames one after another as an animated WebP of at most `most` bytes.

    What is larger is made coarser, and then every other frame is left out until it fits or one is
    left. Each frame is shown for as long as those that are left out after it would have been.
    """
    step = 1
    while True:
        for quality in _QUALITIES:
            frames[0].save(
                file := io.BytesIO(),
                "webp",
                save_all=True,
                append_images=frames[step::step],
                duration=_MILLISECONDS * step,
                loop=0,
                quality=quality,
                method=2,
            )
            if file.tell() <= most or (step >= len(frames) and quality == _QUALITIES[-1]):
                return file.getvalue()
        step *= 2


def _panels(
    image: Image.Image,
    target: FrameTargets,
    prediction: FramePrediction,
    convention: str,
    width: int,
    rows: int = 0,
) -> list[Image.Image]:
    """What is true, what is predicted and the list of triplets, which has `rows` lines or more."""
    found = top_triplets(prediction, target, "with", SHOWN, convention)
    shown_K = (found[2] > 0) & (found[2] >= LEAST * found[2].max(initial=0))
    pair_K, relation_K, score_K, hit_K = (of_K[shown_K] for of_K in found)
    number_of = {pair: place for place, pair in enumerate(dict.fromkeys(pair_K.tolist()), 1)}
    truth = [("person", _PERSON, target.person_box_4)]
    for object_class, box_4 in zip(target.object_classes_M, target.object_boxes_M4, strict=True):
        truth.append((OBJECTS[object_class], _OBJECT, box_4))
    pairs = _pair_boxes(prediction, number_of, {*pair_K[hit_K].tolist()})

    lines = [(f"Best {len(pair_K)} triplets, with constraint", _INK)]
    for pair, relation, score, hit in zip(pair_K, relation_K, score_K, hit_K, strict=True):
        said = in_words(relation, prediction.object_classes_P[pair])
        mark, colour = ("✓", _GREEN) if hit else ("✗", _RED)
        lines.append((f"{mark} {number_of[int(pair)]}  {said}  {score:.2f}", colour))
    found_G = triplet_ranks([prediction], [target], convention)[0] < WITHIN
    counted = f"{found_G.sum()} of {len(found_G)} true triplets"
    lines += [("", _INK), (f"Found within {WITHIN}: {counted}", _INK)]
    for row, relation in target.relations_G2[~found_G]:
        lines.append((f"missed: {in_words(relation, target.object_classes_M[row])}", _RED))

    letter = font(width // 36)
    high, margin = round(1.45 * letter.size), width // 60
    listed = Image.new("RGB", (width, high * (max(rows, len(lines[:_LINES])) + 2)), "white")
    for row, (text, colour) in enumerate(lines[:_LINES]):
        place = (margin, high * (row + 1))
        ImageDraw.Draw(listed).text(place, text, colour, letter)
    true = _boxed(image, truth, width, "ground truth", target.name)
    return [true, _boxed(image, pairs, width, "prediction, pairs numbered"), listed]


def _boxed(
    image: Image.Image, boxes: Sequence[Box], width: int, caption: str, name: str = ""
) -> Image.Image:
    """The image with boxes and a line of text over it, on paper so wide."""
    letter, small = font(width // 32), font(width // 42)
    head, margin = round(1.6 * letter.size), width // 60
    scale = min((width - 2 * margin) / image.width, 1.5 * width / image.height)
    sharp = Image.Resampling.NEAREST if scale > 2 else Image.Resampling.BICUBIC
    shown = image.resize((round(scale * image.width), round(scale * image.height)), sharp)
    scaled = [(label, colour, scale * box_4) for label, colour, box_4 in boxes]
    draw_boxes(shown, scaled, small, max(2, width // 180))
    paper = Image.new("RGB", (width, head + shown.height + margin), "white")
    paper.paste(shown, (margin, head))
    draw = ImageDraw.Draw(paper)
    draw.text((margin, head - 3), caption, _GREY, letter, anchor="ld")
    draw.text((width - margin, head - 3), name, _INK, letter, anchor="rd")
    return paper


def draw_boxes(
    picture: Image.Image, boxes: Sequence[Box], letter: ImageFont.FreeTypeFont, thickness: int
) -> None:
    """Draw boxes, given in pixels of the picture, the last on top, and their labels inside it.

    A label is at the upper end of its box, a person's at the lower: objects lie on persons.
    """
    draw = ImageDraw.Draw(picture)
    for _, colour, box_4 in boxes:
        draw.rectangle(box_4.tolist(), outline=colour, width=thickness)
    for label, colour, (x1, y1, _, y2) in boxes:
        _, _, wide, high = draw.textbbox((3, 1), label, letter)
        y = y2 - high - 1 if label.endswith("person") else y1
        x = max(0, min(x1, picture.width - wide - 3))
        y = max(0, min(y, picture.height - high - 1))
        draw.rectangle((x, y, x + wide + 2, y + high + 1), colour)
        draw.text((x + 3, y + 1), label, "white", letter)


def _pair_boxes(
    prediction: FramePrediction, number_of: dict[int, int], hits: set[int]
) -> list[Box]:
    """Label, colour and box of the people and objects of numbered pairs, the best one last.

    Boxes of one class that lie on one another are the best pair's, with the numbers of all. An
    object is green if a triplet of such a pair finds a true one, else red.
    """
    drawn: list[tuple[int, np.ndarray, list[int]]] = []  # class 0: the subject
    for pair in number_of:
        people, objects = prediction.person_boxes_P4[pair], prediction.object_boxes_P4[pair]
        for of, box_4 in ((0, people), (int(prediction.object_classes_P[pair]), objects)):
            for other, other_4, pairs in drawn:
                if other == of and overlaps(box_4, other_4) >= SAME:
                    pairs.append(pair)
                    break
            else:
                drawn.append((of, box_4, [pair]))
    boxes = []
    for of, box_4, pairs in reversed(drawn):
        numbers = ", ".join(str(number_of[pair]) for pair in pairs)
        label, colour = f"{numbers} person", _PERSON
        if of:
            label = f"{numbers} {OBJECTS[of]} {prediction.object_scores_P[pairs[0]]:.2f}"
            colour = _GREEN if hits.intersection(pairs) else _RED
        boxes.append((label, colour, box_4))
    return boxes


def _joined(pictures: Sequence[Image.Image], way: Literal["across", "down"]) -> Image.Image:
    """Pictures beside or under one another, on white paper."""
    widths, heights = zip(*(picture.size for picture in pictures), strict=True)
    across = way == "across"
    size = (sum(widths), max(heights)) if across else (max(widths), sum(heights))
    paper, at = Image.new("RGB", size, "white"), 0
    for picture in pictures:
        paper.paste(picture, (at, 0) if across else (0, at))
        at += picture.width if across else picture.height
    return paper


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Letters of so many pixels, with a tick and a cross among them."""
    return ImageFont.truetype(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf", max(size, 6))


def in_words(relation: int, object_class: int) -> str:
    """The triplet of a person and an object, from subject to object."""
    said, ends = RELATIONS[relation].replace("_", " "), ("person", OBJECTS[object_class])
    first, last = ends[::-1] if SPATIAL.start <= relation < SPATIAL.stop else ends
    return f"{first} - {said} - {last}"
