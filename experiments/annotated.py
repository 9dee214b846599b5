"""Pictures of a video with what a model predicts: boxes, and a panel of relations beside them.

h x w pixels, C channels, P pairs.
"""

import numpy as np
from PIL import Image, ImageDraw

from datasets.annotations.vocabulary import GROUPS, OBJECTS
from datasets.frames.sizes import fit
from datasets.scoring.iou import overlaps
from datasets.scoring.pictures import Box, draw_boxes, font, in_words
from datasets.scoring.prediction import FramePrediction

SIZE_HW = (540, 960)
"""What a picture is fitted into; small ones are enlarged."""
PANEL = 400
"""Pixels of the panel's width."""
MOST = 6
"""Objects in a picture."""
SAME = 0.5
"""IoU from which two boxes of one class are one object."""

_PERSON = "#1565c0"
_COLOURS = ("#c2410c", "#15803d", "#a21caf", "#0e7490", "#a16207", "#be123c")
_INK, _GREY, _PAPER = "#202020", "#707070", "#ffffff"
_LETTER, _LINE, _MARGIN = 13, 21, 12


def annotate(
    picture_hwC: np.ndarray, prediction: FramePrediction, threshold: float, caption: str
) -> np.ndarray:
    """Draw the objects of score `threshold` and more, with their relations of that score.

    Args:
        picture_hwC: RGB uint8, in native pixels.
        caption: first line of the panel.

    Returns:
        the picture and the panel, RGB uint8; its size follows from that of `picture_hwC`.
    """
    high, wide = (side - side % 2 for side in fit(picture_hwC.shape[:2], SIZE_HW))
    high, wide = max(high, 2), max(wide, 2)
    scale = np.array([wide / picture_hwC.shape[1], high / picture_hwC.shape[0]] * 2)
    resample = Image.Resampling.NEAREST if scale.min() > 2 else Image.Resampling.BICUBIC
    picture = Image.fromarray(picture_hwC).resize((wide, high), resample)
    shown = pairs_shown(prediction, threshold)
    lines: list[tuple[str, str, int]] = [(caption, _GREY, 0)]
    boxes: list[Box] = []
    for pair, colour in zip(shown, _COLOURS, strict=False):
        name = OBJECTS[prediction.object_classes_P[pair]]
        title = f"{name} {prediction.object_scores_P[pair]:.2f}"
        boxes.append((title, colour, prediction.object_boxes_P4[pair] * scale))
        lines.append((title, colour, 0))
        lines += [(line, _INK, 14) for line in relations_in_words(prediction, pair, threshold)]
    if shown:
        boxes.append(("person", _PERSON, prediction.person_boxes_P4[shown[0]] * scale))
    if len(lines) == 1 + len(shown):
        missing = "relation" if shown else "object"
        lines.append((f"no {missing} of score {threshold:g} or more", _GREY, 0))
    draw_boxes(picture, boxes[::-1], font(_LETTER), 3)  # the best on top
    sheet = Image.new("RGB", (wide + PANEL, SIZE_HW[0]), _PAPER)
    sheet.paste(picture)
    draw = ImageDraw.Draw(sheet)
    for row, (line, colour, indent) in enumerate(lines):
        draw.text((wide + _MARGIN + indent, _MARGIN + row * _LINE), line, colour, font(_LETTER))
    return np.asarray(sheet)


def pairs_shown(prediction: FramePrediction, threshold: float) -> list[int]:
    """Pairs of score `threshold` and more, the best first, every object once, at most `MOST`."""
    shown: list[int] = []
    score_P, class_P = prediction.object_scores_P, prediction.object_classes_P
    boxes_P4 = prediction.object_boxes_P4
    same_PP = (overlaps(boxes_P4[:, None], boxes_P4) >= SAME) & (class_P[:, None] == class_P)
    for pair in np.argsort(-score_P, kind="stable").tolist():
        if score_P[pair] >= threshold and not same_PP[pair, shown].any():
            shown.append(pair)
    return shown[:MOST]


def relations_in_words(prediction: FramePrediction, pair: int, threshold: float) -> list[str]:
    """The best relation of each group, in words, where it reaches `threshold`."""
    lines = []
    for group in GROUPS.values():
        score_R = prediction.relation_scores_PR[pair, group]
        best = int(score_R.argmax())
        if score_R[best] >= threshold:
            said = in_words(group.start + best, prediction.object_classes_P[pair])
            lines.append(f"{said}  {score_R[best]:.2f}")
    return lines


def highest_threshold(prediction: FramePrediction) -> float:
    """The highest threshold at which a relation is drawn, 0..1; 0 where there is no pair."""
    best_P = prediction.relation_scores_PR.max(1, initial=0)
    return float(np.minimum(prediction.object_scores_P, best_P).max(initial=0))
