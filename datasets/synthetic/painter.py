"""Paint the frames of a script: background, objects and person in order of depth, then cues.

An object is a tile in its class's colour and shape with a rim, white in front of the person and
black behind. Along the top edge of its box are three cue cells of equal width: two for the
contacting code (its last and first digit to base nine) and one for attention; grey is blank.

H x W pixels, M objects.
"""

from functools import lru_cache

import numpy as np

from datasets.synthetic.cues import NO_CUE
from datasets.synthetic.script import COUNTS, NO_OBJECT, NO_PERSON, Script
from datasets.synthetic.world import WORLD_SIDE


def _colours(text: str) -> np.ndarray:
    """Return red, green and blue of hexadecimal colours, uint8 ``(N, 3)``."""
    return np.frombuffer(bytes.fromhex(text), np.uint8).reshape(-1, 3)


CUE_COLOURS = _colours("e61e1e 1ec81e 283cff fae614 f028f0 1edce6 fa8214 ffffff 000000")
BLANK = np.array((128, 128, 128), dtype=np.uint8)
CELL_HEIGHT = 7
"""Height of the cue cells in units of the world; together they are as wide as the object."""

TILE_COLOURS = _colours("dc3c32 3cbe46 4664f0 e6c832 c846d2 3cc8d2 f08c28")
SKIN, SHIRT = (255, 214, 170), (245, 245, 245)
INK = 0.85
"""Opacity of what is drawn: a trace of what lies behind stays visible."""


def paint(script: Script, position: int) -> np.ndarray:
    """Paint frame `position` of the files of `script`, uint8 ``(H, W, 3)``."""
    t, kind = int(script.source_F[position]), int(script.kind_F[position])
    size = script.image_size
    canvas_HW3 = np.full((size, size, 3), script.background_3, np.uint8)
    visible = [] if kind == NO_OBJECT else np.flatnonzero(script.visible_TM[t]).tolist()
    for m in visible:
        if not script.in_front_TM[t, m]:
            _paint_object(canvas_HW3, script, t, m)
    if kind != NO_PERSON:
        _paint_person(canvas_HW3, script.person_boxes_T4[t])
    for m in visible:
        if script.in_front_TM[t, m]:
            _paint_object(canvas_HW3, script, t, m)
    for m in visible:
        codes = (script.contacting.cue_TM[t, m], script.attention.cue_TM[t, m])
        if kind != COUNTS:
            codes = (NO_CUE, NO_CUE)
        for (x1, y1, x2, y2), colour in zip(
            cue_cells(script.object_boxes_TM4[t, m], size), cell_colours(*codes), strict=True
        ):
            canvas_HW3[y1:y2, x1:x2] = colour
    return canvas_HW3


def cue_cells(box_4: np.ndarray, image_size: int) -> list[tuple[int, int, int, int]]:
    """Return the cue cells of an object's box, xyxy pixels: contacting, contacting, attention."""
    x1, y1, x2, _ = box_4.tolist()
    edges = [x1 + round(cell * (x2 - x1) / 3) for cell in range(4)]
    bottom = y1 + _cell_height(image_size)
    return [(edges[cell], y1, edges[cell + 1], bottom) for cell in range(3)]


def _cell_height(image_size: int) -> int:
    return round(CELL_HEIGHT * image_size / WORLD_SIDE)


def cell_colours(contacting: int, attention: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the colours of the three cells for a contacting and an attention code, or `NO_CUE`."""
    first, second, third = BLANK, BLANK, BLANK
    if contacting != NO_CUE:
        first, second = CUE_COLOURS[list(divmod(int(contacting), len(CUE_COLOURS)))[::-1]]
    if attention != NO_CUE:
        third = CUE_COLOURS[attention]
    return first, second, third


@lru_cache(maxsize=4096)
def tile(object_class: int, height: int, width: int, in_front: bool, image_size: int) -> np.ndarray:
    """Draw an object, uint8 ``(height, width, 3)``: shape in colour, dark ground, rim."""
    look = object_class - 2
    colour = TILE_COLOURS[look % len(TILE_COLOURS)]
    # The cue cells hide the top: the shape is below them.
    top = _cell_height(image_size)
    y = np.linspace(-1, 1, height - top)[:, None]
    x = np.linspace(-1, 1, width)[None, :]
    shape = (
        np.ones((height - top, width), dtype=bool),
        x**2 + y**2 < 0.75,
        (np.abs(x) < 0.3) | (np.abs(y) < 0.3),
        np.abs(x) + np.abs(y) > 1.1,
        np.broadcast_to(np.sin(4.5 * y + 4.5 * x) > 0, (height - top, width)),
    )[look // len(TILE_COLOURS)]
    tile_HW3 = np.full((height, width, 3), colour * 0.35, np.uint8)
    tile_HW3[top:][shape] = colour
    rim_colour = 255 if in_front else 0
    rim = max(1, int(image_size / WORLD_SIDE))
    tile_HW3[:rim] = tile_HW3[-rim:] = rim_colour
    tile_HW3[:, :rim] = tile_HW3[:, -rim:] = rim_colour
    tile_HW3.setflags(write=False)
    return tile_HW3


def _paint_object(canvas_HW3: np.ndarray, script: Script, t: int, m: int) -> None:
    x1, y1, x2, y2 = script.object_boxes_TM4[t, m].tolist()
    in_front = bool(script.in_front_TM[t, m])
    look = tile(int(script.classes_M[m]), y2 - y1, x2 - x1, in_front, script.image_size)
    region = canvas_HW3[y1:y2, x1:x2]
    region[:] = INK * look + (1 - INK) * region


@lru_cache(maxsize=1024)
def _figure(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a person's head and body, bool ``(height, width)``; together they touch all edges."""
    y = (np.arange(height)[:, None] + 0.5) / height
    x = (np.arange(width)[None, :] + 0.5) / width * 2 - 1
    head = (x / 0.5) ** 2 + ((y - 0.14) / 0.14) ** 2 <= 1
    torso = (np.abs(x) < 0.36) & (y > 0.26) & (y < 0.7)
    arms = (y > 0.34) & (y < 0.46)
    legs = (np.abs(np.abs(x) - (y - 0.55) * 1.75) < 0.24) & (y >= 0.62)
    return head, torso | np.broadcast_to(arms, torso.shape) | legs


def _paint_person(canvas_HW3: np.ndarray, box_4: np.ndarray) -> None:
    x1, y1, x2, y2 = box_4.tolist()
    region = canvas_HW3[y1:y2, x1:x2]
    for part, colour in zip(_figure(y2 - y1, x2 - x1), (SKIN, SHIRT), strict=True):
        region[part] = INK * np.array(colour) + (1 - INK) * region[part]
