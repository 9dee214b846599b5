"""Pictures of predictions: frames with true and predicted boxes, and the triplets beside them.

A picture shows one frame twice - the ground truth, then the pairs of the best predicted triplets -
and a panel: the best triplets with constraint, green with a tick where one finds a true triplet and
red with a cross where not, and the true triplets that the first 20 miss. One PNG a frame for
print, one GIF a video.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, SPATIAL
from datasets.scoring.iou import Convention
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import top_triplets, triplet_ranks

SHOWN = 8
"""Predicted triplets in the panel."""
WITHIN = 20
"""A true triplet counts as missed when it is not found within so many."""

_MISSED = 10  # lines of missed triplets in the panel, the last of which may say how many more
_U = 2  # pixels of a PNG to one of the GIF
_FRAME_WIDTH, _FRAME_HEIGHT, _PANEL, _GAP, _LINE = (_U * size for size in (520, 440, 452, 20, 22))
_TEXT, _TITLE, _LABEL = 14 * _U, 16 * _U, 12 * _U
_INK, _GREY, _GREEN, _RED = "#202020", "#707070", "#0a7d32", "#c62828"
_PERSON, _OBJECT = "#1565c0", "#b35900"
_MILLISECONDS = 600


def spread(videos: int, count: int) -> list[int]:
    """`count` of the numbers ``0..videos - 1``, evenly spaced: the same for the same split.

    Raises `InputError` for a negative count.
    """
    if count < 0:
        raise InputError(f"pictures of {count} videos are asked for; give 0 or more")
    count = min(count, videos)
    return [(2 * i + 1) * videos // (2 * count) for i in range(count)]


class Album:
    """Keeps what is predicted of some videos while it passes by, to draw them afterwards."""

    def __init__(self, source: ActionGenome, count: int) -> None:
        self.source = source
        self.video_of = {
            target.name: video
            for video in spread(len(source), count)
            for target in source.targets(video, 0, int(source.lengths[video]))
        }
        self.prediction_of: dict[str, FramePrediction] = {}

    def keep(self, targets: Sequence[FrameTargets], predictions: Sequence[FramePrediction]) -> None:
        """Take in the predictions of any frames."""
        for target, prediction in zip(targets, predictions, strict=True):
            if target.name in self.video_of:
                self.prediction_of[target.name] = prediction

    def draw(self, folder: Path, convention: Convention = "inclusive") -> list[Path]:
        """Draw the videos that were seen (here; other ranks see others), see `draw_video`."""
        videos = dict.fromkeys(self.video_of[name] for name in self.prediction_of)
        return [
            draw_video(self.source, video, self.prediction_of, folder, convention)
            for video in sorted(videos)
        ]


def draw_video(
    source: ActionGenome,
    video: int,
    prediction_of: Mapping[str, FramePrediction],
    folder: Path,
    convention: Convention = "inclusive",
) -> Path:
    """Draw all frames of a video: ``folder/VIDEO.gif`` and ``folder/VIDEO/000089.png``.

    `prediction_of` has a prediction by the name of each frame. Returns the path of the GIF.
    """
    name = source.videos[video]
    targets = source.targets(video, 0, int(source.lengths[video]))
    (folder / name).mkdir(parents=True, exist_ok=True)
    small = []
    for number, target in enumerate(targets, 1):
        frame_CHW = source.picture(target)
        picture = draw_frame(
            Image.fromarray(frame_CHW.permute(1, 2, 0).numpy()),
            target,
            prediction_of[target.name],
            title=f"{target.name}   frame {number} of {len(targets)}",
            convention=convention,
        )
        picture.save((folder / target.name).with_suffix(".png"), compress_level=3)
        half = picture.reduce(_U)
        small.append(half.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE))
    path = folder / f"{name}.gif"
    small[0].save(path, save_all=True, append_images=small[1:], duration=_MILLISECONDS, loop=0)
    return path


def draw_frame(
    image: Image.Image,
    target: FrameTargets,
    prediction: FramePrediction,
    title: str,
    convention: Convention = "inclusive",
) -> Image.Image:
    """One frame in native pixels as a picture of its own."""
    scale = min(_FRAME_WIDTH / image.width, _FRAME_HEIGHT / image.height)
    size = (round(image.width * scale), round(image.height * scale))
    # Few large pixels stay sharp squares, a photograph is smoothed.
    how = Image.Resampling.NEAREST if scale > 4 else Image.Resampling.LANCZOS
    large = image.resize(size, how)
    pair_K, relation_K, score_K, hit_K = top_triplets(prediction, target, "with", SHOWN, convention)
    found_G = triplet_ranks([prediction], [target], convention)[0] < WITHIN

    top = _GAP + 3 * _LINE
    panel_lines = 3 + SHOWN + 2 + _MISSED
    width = 2 * size[0] + _PANEL + 4 * _GAP
    height = max(top + size[1], _GAP + panel_lines * _LINE) + _GAP
    canvas = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(canvas)
    draw.text((_GAP, _GAP), title, _INK, _font(_TITLE, bold=True))
    lefts = (_GAP, 2 * _GAP + size[0])
    for left, caption in zip(lefts, ("ground truth", "prediction, pairs numbered"), strict=True):
        draw.text((left, _GAP + 2 * _LINE - _LINE // 4), caption, _GREY, _font(_TEXT))

    truth = large.copy()
    boxes = [("person", _PERSON, target.person_box_4)]
    boxes += [
        (OBJECTS[c], _OBJECT, box_4)
        for c, box_4 in zip(target.object_classes_M, target.object_boxes_M4, strict=True)
    ]
    _draw_boxes(truth, boxes, scale)
    canvas.paste(truth, (lefts[0], top))

    number_of = {pair: place for place, pair in enumerate(dict.fromkeys(pair_K.tolist()), 1)}
    boxes = []
    for pair, number in number_of.items():
        colour = _GREEN if hit_K[pair_K == pair].any() else _RED
        thing = OBJECTS[prediction.object_classes_P[pair]]
        score = _score(prediction.object_scores_P[pair])
        boxes.append((f"{number} {thing} {score}", colour, prediction.object_boxes_P4[pair]))
        boxes.append((f"{number}", colour, prediction.person_boxes_P4[pair]))
    _draw_boxes(large, boxes, scale)
    canvas.paste(large, (lefts[1], top))

    panel = _Panel(draw, 3 * _GAP + 2 * size[0], _GAP, width - _GAP)
    panel.line(f"Best {SHOWN} triplets, with constraint", _INK, bold=True)
    for place, (pair, relation, hit) in enumerate(
        zip(pair_K.tolist(), relation_K, hit_K, strict=True)
    ):
        words = _words(int(relation), OBJECTS[prediction.object_classes_P[pair]])
        mark, colour = ("✓", _GREEN) if hit else ("✗", _RED)
        panel.line(f"{mark} {number_of[pair]}  {words}", colour, right=_score(score_K[place]))
    if not len(pair_K):
        panel.line("nothing is predicted", _GREY)
    panel.skip_to(1 + SHOWN + 1)
    missed = [
        _words(int(relation), OBJECTS[target.object_classes_M[row]])
        for (row, relation), found in zip(target.relations_G2, found_G, strict=True)
        if not found
    ]
    panel.line(
        f"Found within {WITHIN}: {found_G.sum()} of {len(found_G)} true triplets", _INK, bold=True
    )
    more = len(missed) - _MISSED
    for words in missed if more <= 0 else missed[: _MISSED - 1]:
        panel.line(f"missed: {words}", _RED)
    if more > 0:
        panel.line(f"and {more + 1} more", _RED)
    return canvas


class _Panel:
    """Lines of text one below the other."""

    def __init__(self, draw: ImageDraw.ImageDraw, left: int, top: int, right: int) -> None:
        self.draw, self.left, self.top, self.right = draw, left, top, right
        self.row = 0

    def line(self, text: str, colour: str, right: str = "", bold: bool = False) -> None:
        y = self.top + self.row * _LINE
        self.draw.text((self.left, y), text, colour, _font(_TEXT, bold))
        self.draw.text((self.right, y), right, colour, _font(_TEXT), anchor="ra")
        self.row += 1

    def skip_to(self, row: int) -> None:
        self.row = row


def _score(score: float) -> str:
    return f"{score:.2f}" if score >= 0.005 else "<.01"


def _words(relation: int, thing: str) -> str:
    said = RELATIONS[relation].replace("_", " ")
    first, last = (
        (thing, "person") if relation in range(*SPATIAL.indices(26)) else ("person", thing)
    )
    return f"{first} - {said} - {last}"


def _draw_boxes(
    image: Image.Image, boxes: Sequence[tuple[str, str, np.ndarray]], scale: float
) -> None:
    """Draw boxes (label, colour, native xyxy), then their labels where they hide no other."""
    draw = ImageDraw.Draw(image)
    for label, colour, box_4 in boxes:
        width = _U if label.isdigit() else 2 * _U  # the person of a predicted pair: thinner
        draw.rectangle(_on(image, box_4 * scale), outline="white", width=width + 1)
        draw.rectangle(_on(image, box_4 * scale), outline=colour, width=width)
    taken: list[tuple[float, float, float, float]] = []
    for label, colour, box_4 in boxes:
        x1, y1, x2, y2 = _on(image, box_4 * scale)
        width, height = draw.textlength(label, _font(_LABEL)) + 4 * _U, 16 * _U
        places = [(x, y) for y in (y1 - height, y2, y1, y2 - height) for x in (x1, x2 - width)]
        places += [(x1, y) for y in range(0, image.height - height, height)]
        inside = [
            (min(max(x, 0), image.width - width), min(max(y, 0), image.height - height))
            for x, y in places
        ]
        free = (
            (x, y, x + width, y + height)
            for x, y in inside
            if all(x >= r or x + width <= a or y >= s or y + height <= b for a, b, r, s in taken)
        )
        place = next(free, (*inside[0], inside[0][0] + width, inside[0][1] + height))
        taken.append(place)
        draw.rectangle(place, fill=colour)
        draw.text((place[0] + 2 * _U, place[1] + _U), label, "white", _font(_LABEL))


def _on(image: Image.Image, box_4: np.ndarray) -> tuple[float, float, float, float]:
    """A box with its border inside the image."""
    x1, y1, x2, y2 = box_4.tolist()
    right, below = image.width - 1, image.height - 1
    return min(max(x1, 0), right), min(max(y1, 0), below), min(x2, right), min(y2, below)


@lru_cache
def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib and has ticks and crosses."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)
