"""Draw docs/blocks.gif: sequences fall into blocks, and ranks train them in step.

    python docs/animation.py [GIF]

Sixteen random videos of Action Genome fall into rows of their own on the left, as naive padding has
them, and into the blocks of `bload_exact` on the right; then two ranks train a row each per step.
"""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from bload import Plan, action_genome_lengths, make_plan

WIDTH, TOP, BOTTOM, MARGIN, GUTTER, GAP = 1600, 164, 136, 36, 96, 52
PITCH, THICK = 32, 24
"""Pixels from one row to the next, and height of its bar."""
DIM = 0.45
"""Share of its colour that waits to be trained, or that lies between the lines of padding."""
BETWEEN, FALL, FLASH, SWEEP, PAUSE, STEP = 3, 8, 7, 6, 12, 14
"""Frames between two falls, of a fall, a flash, padding that fills, a pause, a training step."""

FRAME_MS, HOLD_MS = 50, 3200
"""Time of a frame, and of the end, which comes first."""

font = cache(ImageFont.load_default)
Colour = tuple[int, int, int]
Place = tuple[int, int]
Pen = ImageDraw.ImageDraw
CARD: Colour = (22, 27, 34)
TRACK: Colour = (36, 42, 51)
INK: Colour = (230, 237, 243)
QUIET: Colour = (150, 160, 171)
WHITE: Colour = (255, 255, 255)
PADDING: Colour = (84, 93, 105)
WASTED: Colour = (248, 81, 73)
GOOD: Colour = (63, 185, 80)
VIDEOS: tuple[Colour, ...] = (
    (88, 166, 255),
    (227, 179, 65),
    (163, 113, 247),
    (57, 197, 187),
    (121, 192, 255),
    (126, 211, 112),
    (210, 168, 255),
    (240, 200, 120),
)


class Bar(NamedTuple):
    """A segment on one side: its place, its colour, and the frame at which it lands."""

    row: int
    slot: int
    length: int
    colour: Colour
    lands: int


@dataclass(frozen=True)
class Side:
    """One half of the picture."""

    title: str
    caption: str
    left: int
    """Pixel at which its blocks begin."""
    rows: int
    bars: list[Bar]

    def used(self, row: int) -> int:
        return sum(bar.length for bar in self.bars if bar.row == row)

    def full(self, row: int) -> int:
        """Return the frame at which all segments of the row have landed."""
        return max(bar.lands for bar in self.bars if bar.row == row)


class Scene:
    """Positions of everything at each frame."""

    def __init__(self, plan: Plan, ranks: int, title: str) -> None:
        self.t_max, self.ranks, self.segments = plan.t_max, ranks, plan.segments
        panel = (WIDTH - 2 * MARGIN - GAP) // 2
        self.scale = (panel - GUTTER) / plan.t_max
        self.size = (WIDTH, TOP + PITCH * plan.segments + BOTTOM)
        alone, packed = _bars(plan)
        self.sides = (
            Side(
                "Naive padding",
                "one video per block, padded to the longest",
                MARGIN + GUTTER,
                plan.segments,
                alone,
            ),
            Side(
                title,
                f"the same {plan.segments} videos, several to a block",
                MARGIN + GUTTER + panel + GAP,
                plan.blocks,
                packed,
            ),
        )
        self.trains = max(bar.lands for bar in alone) + SWEEP + PAUSE
        """Frame at which training begins."""
        self.frames = self.trains + STEP * self.steps(self.sides[0]) + 2

    def steps(self, side: Side) -> int:
        return -(-side.rows // self.ranks)

    def draw(self, frame: int) -> Image.Image:
        """Return one frame as an RGB picture."""
        picture = Image.new("RGB", self.size, CARD)
        pen = ImageDraw.Draw(picture)
        for side in self.sides:
            for row in range(side.rows):
                self._row(pen, side, row, frame)
            for bar in side.bars:
                self._bar(pen, side, bar, frame)
            self._heads(pen, side, frame)
            self._texts(pen, side, frame)
        self._legend(pen, frame)
        return picture

    def _y(self, row: int) -> int:
        return TOP + row * PITCH

    def _x(self, side: Side, slot: float) -> int:
        return side.left + round(slot * self.scale)

    def trained(self, side: Side, row: int, frame: int) -> float:
        """Return the slots of a row that have been trained."""
        return self.t_max * min(max((frame - self._begins(row)) / STEP, 0.0), 1.0)

    def _begins(self, row: int) -> int:
        """Return the frame at which the training of a row begins."""
        return self.trains + STEP * (row // self.ranks)

    def _row(self, pen: Pen, side: Side, row: int, frame: int) -> None:
        """Draw the empty slots of a row, and its padding as far as it has come."""
        top, used = self._y(row), side.used(row)
        pen.rectangle(self._box(side, 0, self.t_max, top), fill=TRACK)
        end = used + self._padding(side, row, frame)
        if end > used:
            self._hatch(pen, self._box(side, used, end, top), PADDING)
            trained = self.trained(side, row, frame)
            if trained > used:
                self._hatch(pen, self._box(side, used, trained, top), WASTED)

    def _box(self, side: Side, first: float, end: float, top: int) -> tuple[int, int, int, int]:
        return self._x(side, first), top, self._x(side, end) - 1, top + THICK - 1

    def _hatch(self, pen: Pen, box: tuple[int, int, int, int], colour: Colour) -> None:
        left, top, right, bottom = box
        if right <= left:
            return
        pen.rectangle(box, fill=mix(CARD, colour, DIM))
        for x in range(left - left % 12 - 24, right, 12):  # one grid for all rows
            for y in range(top, bottom + 1):
                first = x + bottom - y
                if first + 3 >= left and first <= right:
                    pen.line((max(first, left), y, min(first + 3, right), y), fill=colour)

    def _bar(self, pen: Pen, side: Side, bar: Bar, frame: int) -> None:
        """Draw a segment: falling, landed with a flash at its start, or trained."""
        share = 1 - (bar.lands - frame) / FALL
        if share < 0:
            return
        bottom, begin = self._y(bar.row), TOP - PITCH
        top = round(begin + (bottom - begin) * min(share, 1.0) ** 2)
        end = bar.slot + bar.length
        waits = frame >= self.trains
        colour = mix(CARD, bar.colour, DIM) if waits else bar.colour
        pen.rectangle(self._box(side, bar.slot, end, top), fill=colour)
        trained = self.trained(side, bar.row, frame)
        if trained > bar.slot:
            pen.rectangle(self._box(side, bar.slot, min(trained, end), top), fill=bar.colour)
        if share >= 1:
            passes = self._begins(bar.row) + STEP * bar.slot / self.t_max
            since = frame - (passes if frame >= passes else bar.lands)
            glow = max(1 - since / FLASH, 0.0)
            left = self._x(side, bar.slot)
            reach = round(glow * 4)
            right = min(left + 4 + round(glow * 16), self._x(side, end) - 1)
            pen.rectangle((left, top - reach, right, top + THICK - 1 + reach), fill=WHITE)

    def _heads(self, pen: Pen, side: Side, frame: int) -> None:
        """Draw what each rank trains at this moment."""
        step, within = divmod(frame - self.trains, STEP)
        if frame < self.trains or step >= self.steps(side):
            return
        for row in range(step * self.ranks, min((step + 1) * self.ranks, side.rows)):
            top, x = self._y(row), self._x(side, self.t_max * within / STEP)
            pen.rectangle((x - 2, top - 3, x + 2, top + THICK + 2), fill=WHITE)
            place = (side.left - 12, top + THICK // 2)
            write(pen, place, f"rank {row % self.ranks}", 24, INK, "rm")

    def _texts(self, pen: Pen, side: Side, frame: int) -> None:
        """Draw the title and, below the blocks, the counters."""
        left, base = side.left, self.size[1] - BOTTOM + 24
        write(pen, (left, 30), side.title, 42, INK, "lt", bold=True)
        write(pen, (left, 84), side.caption, 28, QUIET, "lt")
        padded = sum(self.padded(side, row, frame) for row in range(side.rows))
        packs = side is self.sides[1]
        colour = GOOD if packs else WASTED
        count = f"{padded:,}"
        write(pen, (left, base), count, 60, colour, "lt", bold=True)
        wide = round(font(60).getlength(count))
        unit = "padded slot" if padded == 1 else "padded slots"
        write(pen, (left + wide + 20, base + 16), unit, 32, INK, "lt")
        steps, right = self.steps(side), self._x(side, self.t_max)
        done = (frame - self.trains) / STEP
        if frame >= self.trains:
            now = "epoch done" if done >= steps else f"step {int(done) + 1} of {steps}"
            tint = GOOD if done >= steps and packs else INK
            write(pen, (right, base + 16), now, 32, tint, "rt")

    def padded(self, side: Side, row: int, frame: int) -> int:
        """Return the slots of a row that hold padding so far."""
        return round(self._padding(side, row, frame))

    def _padding(self, side: Side, row: int, frame: int) -> float:
        grown = min(max((frame - side.full(row)) / SWEEP, 0.0), 1.0)
        return (self.t_max - side.used(row)) * grown

    def _legend(self, pen: Pen, frame: int) -> None:
        """Draw, below the packed blocks, what is going on and what the colours mean."""
        naive, packed = self.sides
        left, top = packed.left, self._y(packed.rows) + 34
        done = frame - self.trains - STEP * self.steps(packed)
        fewer = self.steps(naive) / self.steps(packed)  # fillers are computed too
        if frame < self.trains:
            lines = [("Before the epoch, from the lengths alone:", QUIET)]
            lines.append(("whole videos fall into blocks", INK))
        elif done < 0:
            lines = [(f"Training on {self.ranks} ranks, in step:", QUIET)]
            lines.append(("the state is cleared at every start", INK))
        else:
            lines = [(f"{fewer:.1f} times fewer slots to compute,", GOOD)]
            lines.append((f"{self.steps(packed)} steps instead of {self.steps(naive)}", GOOD))
        for number, (text, colour) in enumerate(lines):
            write(pen, (left, top + 46 * number), text, 34, colour, "lt")
        top += 136
        for number, name in enumerate(("video", "start", "padding", "padding, computed")):
            x, y = left + 200 * (number % 2), top + 48 * (number // 2)
            if name == "start":
                pen.rectangle((x + 26, y - 2, x + 31, y + 27), fill=WHITE)
            elif name == "video":
                pen.rectangle((x, y, x + 33, y + 25), fill=VIDEOS[0])
            else:
                self._hatch(pen, (x, y, x + 33, y + 25), PADDING if name == "padding" else WASTED)
            write(pen, (x + 46, y + 13), name, 28, QUIET, "lm")


def write(
    pen: Pen, place: Place, text: str, size: int, colour: Colour, anchor: str, bold: bool = False
) -> None:
    pen.text(place, text, colour, font(size), anchor, stroke_width=int(bold))


def _bars(plan: Plan) -> tuple[list[Bar], list[Bar]]:
    """Return the bars of both sides, in the order in which they fall: the last block first."""
    alone: list[Bar] = []
    packed: list[Bar] = []
    for index in reversed(range(plan.blocks)):
        block = plan.block(index)
        for slot, length in zip(block.starts.tolist(), block.length.tolist(), strict=True):
            number = len(packed)
            lands = BETWEEN * number + FALL + 2
            colour = VIDEOS[number % len(VIDEOS)]
            packed.append(Bar(index, slot, length, colour, lands))
            alone.append(Bar(plan.segments - 1 - number, 0, length, colour, lands))
    return alone, packed


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """Return the colour that lies `share` of the way from one to the other."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def animate(plan: Plan, path: Path, ranks: int = 2, title: str = "BLoad exact") -> None:
    """Write the GIF, all frames in one palette so that flat areas stay flat."""
    scene = Scene(plan, ranks, title)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in _palette() for part in colour])
    frames = [
        scene.draw(frame).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in range(scene.frames)
    ]
    times = [HOLD_MS] + [FRAME_MS] * (len(frames) - 1)  # the end first, where nothing animates
    frames[-1].save(
        path, save_all=True, append_images=frames[:-1], duration=times, loop=0, disposal=1
    )


def _palette() -> list[Colour]:
    """Return every colour drawn: flat ones, and texts fading into the card."""
    flat = [CARD, TRACK, INK, QUIET, WHITE, PADDING, WASTED, GOOD, *VIDEOS]
    flat += [mix(CARD, colour, DIM) for colour in (PADDING, WASTED, *VIDEOS)]
    texts = (INK, QUIET, WASTED, GOOD)
    return flat + [mix(CARD, colour, n / 12) for colour in texts for n in range(1, 12)]


def main() -> None:
    lengths = action_genome_lengths()
    few = np.random.default_rng([0, 0]).choice(len(lengths), 16, replace=False)
    plan = make_plan(lengths[few], "bload_exact", int(lengths.max()))
    animate(plan, Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("blocks.gif"))


if __name__ == "__main__":
    main()
