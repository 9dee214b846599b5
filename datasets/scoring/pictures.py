"""Pictures of predictions: frames with true and predicted boxes, and the triplets beside them.

A picture shows one frame twice - the ground truth, then the pairs of the best predicted triplets -
and a panel: the best triplets with constraint, green with a tick where one finds a true triplet and
red with a cross where not, and the true triplets that the first 20 miss. One PNG per frame for
print, one GIF per video.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from bload.errors import InputError
from datasets.action_genome import VideoSource
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, SPATIAL
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import top_triplets, triplet_ranks

SHOWN = 8
"""Predicted triplets in the panel."""
WITHIN = 20
"""A true triplet counts as missed when it is not found within so many."""

_MISSED = 10  # lines of missed triplets in the panel, the last of which may say how many more
_FRAME, _PANEL, _GAP, _LINE, _DPI = (1040, 880), 904, 40, 44, 200  # pixels; a GIF has half of them
_INK, _GREY, _GREEN, _RED = "#202020", "#707070", "#0a7d32", "#c62828"
_PERSON, _OBJECT = "#1565c0", "#b35900"
_MILLISECONDS = 600


def spread(videos: int, count: int) -> list[int]:
    """Return `count` of the numbers ``0..videos - 1``, evenly spaced: always the same ones.

    Raises `InputError` for a negative count.
    """
    if count < 0:
        raise InputError(f"pictures of {count} videos are asked for; give 0 or more")
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
            for number, target in enumerate(targets, 1):
                image = Image.fromarray(self.source.picture(target).permute(1, 2, 0).numpy())
                title = f"{target.name}   frame {number} of {len(targets)}"
                prediction = self.prediction_of[target.name]
                picture = draw_frame(image, target, prediction, title, convention)
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
    title: str,
    convention: str = "inclusive",
) -> Image.Image:
    """Draw one frame, given in native pixels, with what is true and what is predicted."""
    pair_K, relation_K, score_K, hit_K = top_triplets(prediction, target, "with", SHOWN, convention)
    number_of = {pair: place for place, pair in enumerate(dict.fromkeys(pair_K.tolist()), 1)}
    truth = [("person", _PERSON, target.person_box_4)]
    for number, box_4 in zip(target.object_classes_M, target.object_boxes_M4, strict=True):
        truth.append((OBJECTS[number], _OBJECT, box_4))
    pairs = []
    for pair, number in number_of.items():
        colour = _GREEN if hit_K[pair_K == pair].any() else _RED
        score = _score(prediction.object_scores_P[pair])
        thing = f"{number} {OBJECTS[prediction.object_classes_P[pair]]} {score}"
        pairs.append((thing, colour, prediction.object_boxes_P4[pair]))
        pairs.append((f"{number}", colour, prediction.person_boxes_P4[pair]))

    lines = [(f"Best {SHOWN} triplets, with constraint", "", _INK)]
    for pair, relation, score, hit in zip(pair_K, relation_K, score_K, hit_K, strict=True):
        words = _words(relation, prediction.object_classes_P[pair])
        mark, colour = ("✓", _GREEN) if hit else ("✗", _RED)
        lines.append((f"{mark} {number_of[int(pair)]}  {words}", _score(score), colour))
    if not len(pair_K):
        lines.append(("nothing is predicted", "", _GREY))
    lines += [("", "", _GREY)] * (SHOWN + 2 - len(lines))
    found_G = triplet_ranks([prediction], [target], convention)[0] < WITHIN
    count = f"{found_G.sum()} of {len(found_G)}"
    lines.append((f"Found within {WITHIN}: {count} true triplets", "", _INK))
    missed_N2 = target.relations_G2[~found_G]
    missed = [f"missed: {_words(r, target.object_classes_M[row])}" for row, r in missed_N2]
    if len(missed) > _MISSED:
        missed[_MISSED - 1 :] = [f"and {len(missed) - _MISSED + 1} more"]
    lines += [(line, "", _RED) for line in missed]

    scale = min(_FRAME[0] / image.width, _FRAME[1] / image.height)
    width, height, top = round(image.width * scale), round(image.height * scale), 4 * _GAP
    panel, right = 2 * width + 3 * _GAP, 2 * width + 3 * _GAP + _PANEL
    bottom = max(top + height, (3 + SHOWN + _MISSED) * _LINE)
    canvas, axes = _sheet(right + _GAP, bottom + _GAP)
    _write(axes, _GAP, _GAP, title, _INK, fontsize=11)
    captions = {"ground truth": truth, "prediction, pairs numbered": pairs}
    for left, (caption, boxes) in zip((_GAP, 2 * _GAP + width), captions.items(), strict=True):
        _write(axes, left, top - _LINE, caption, _GREY)
        axes.imshow(image, extent=(left, left + width, top + height, top))
        low, high = np.array([left, top]), np.array([left + width, top + height])
        _draw_boxes(axes, low, high, [(label, c, box_4 * scale) for label, c, box_4 in boxes])
    for row, (text, score, colour) in enumerate(lines):
        _write(axes, panel, _GAP + row * _LINE, text, colour)
        _write(axes, right, _GAP + row * _LINE, score, colour, ha="right")
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])


def _sheet(width: int, height: int) -> tuple[FigureCanvasAgg, Axes]:
    """Return a canvas and axes that fill it, in pixels from the top left corner."""
    figure = Figure((width / _DPI, height / _DPI), _DPI)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.axis("off")
    return FigureCanvasAgg(figure), axes


def _write(axes: Axes, x: float, y: float, text: str, colour: str, **how: Any) -> Text:
    how = {"va": "top", "fontsize": 10, "weight": "bold" if colour == _INK else "normal", **how}
    return axes.text(x, y, text, color=colour, **how)


def _draw_boxes(
    axes: Axes, low: np.ndarray, high: np.ndarray, boxes: Sequence[tuple[str, str, np.ndarray]]
) -> None:
    """Draw boxes (label, colour, xyxy) from corner `low` on, and labels that hide no other."""
    taken: list[Bbox] = []
    for label, colour, box_4 in boxes:
        box = Bbox(np.clip(box_4.reshape(2, 2) + low, low, high))
        thick = 1 if label.isdigit() else 2  # the person of a predicted pair: thinner
        for line, width in (("white", thick + 1), (colour, thick)):
            axes.add_patch(Rectangle((box.x0, box.y0), *box.size, fill=False, ec=line, lw=width))
        text = _write(axes, 0, 0, label, "white", fontsize=8.5, va="center_baseline", zorder=3)
        size = np.array([text.get_window_extent().width + _GAP / 2, 0.75 * _LINE])
        place = np.clip((box.x0, box.y0 - size[1]), low, np.maximum(low, high - size))
        while Bbox([place, place + size]).count_overlaps(taken) and place[1] < high[1]:
            place = np.add(place, (0, size[1]))
        taken.append(Bbox([place, place + size]))
        axes.add_patch(Rectangle(place, *size, fc=colour, ec="none", zorder=2))
        text.set_position((place[0] + _GAP / 4, place[1] + size[1] / 2))


def _score(score: float) -> str:
    return f"{score:.2f}" if score >= 0.005 else "<.01"


def _words(relation: int, object_class: int) -> str:
    said, ends = RELATIONS[relation].replace("_", " "), ("person", OBJECTS[object_class])
    first, last = ends[::-1] if SPATIAL.start <= relation < SPATIAL.stop else ends
    return f"{first} - {said} - {last}"
