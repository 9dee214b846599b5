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

WIDTH, TOP, BOTTOM, LEFT, PANEL = 1600, 164, 136, 132, 642
"""Pixels: of the picture, above and below the rows, left of them, and from one end to the other."""
PITCH, THICK = 32, 24
"""Pixels from one row to the next, and height of its bar."""
BETWEEN, FALL, PAUSE, STEP = 3, 8, 18, 14
"""Frames between two falls, of a fall, of a pause, of a training step."""
FRAME_MS, HOLD_MS = 50, 3200
"""Time of a frame, and of the end, which comes first."""
RANKS = 2

font = cache(ImageFont.load_default)
CARD, TRACK, INK, QUIET, WHITE = "#161b22", "#242a33", "#e6edf3", "#96a0ab", "#ffffff"
PADDING, WASTED, GOOD = "#545d69", "#d8483f", "#3fb950"
VIDEOS = ("#58a6ff", "#e3b341", "#a371f7", "#39c5bb", "#79c0ff", "#7ed370", "#d2a8ff", "#f0c878")


class Bar(NamedTuple):
    """A segment on one side: its place, its colour, and the frame at which it lands."""

    row: int
    slot: int
    length: int
    colour: str
    lands: int


@dataclass(frozen=True)
class Side:
    """One half of the picture: from pixel `left` on, rows of `t_max` slots."""

    title: str
    caption: str
    left: int
    t_max: int
    bars: list[Bar]

    @property
    def rows(self) -> int:
        return 1 + max(bar.row for bar in self.bars)

    @property
    def steps(self) -> int:
        return -(-self.rows // RANKS)

    def padded(self, row: int, frame: int) -> int:
        """Return the padding of a row, which is there once all segments of the row have landed."""
        bars = [bar for bar in self.bars if bar.row == row]
        is_full = frame >= max(bar.lands for bar in bars)
        return self.t_max - sum(bar.length for bar in bars) if is_full else 0

    def box(self, first: float, end: float, top: int) -> tuple[int, int, int, int]:
        """Return the rectangle of these slots."""
        x, x_end = (self.left + round(PANEL * slot / self.t_max) for slot in (first, end))
        return x, top, max(x, x_end - 1), top + THICK - 1


class Scene:
    """Both sides, and what each frame shows."""

    def __init__(self, plan: Plan) -> None:
        blocks = [plan.block(index) for index in reversed(range(plan.blocks))]
        places = [
            (plan.blocks - 1 - number, slot, length)
            for number, block in enumerate(blocks)
            for slot, length in zip(block.starts.tolist(), block.length.tolist(), strict=True)
        ]
        looks = [(VIDEOS[n % 8], BETWEEN * n + FALL + 2) for n in range(plan.segments)]
        packed = [Bar(*place, *look) for place, look in zip(places, looks, strict=True)]
        alone = [
            bar._replace(row=plan.segments - 1 - number, slot=0)
            for number, bar in enumerate(packed)
        ]
        words = "one video per block, padded to the longest"
        naive = Side("Naive padding", words, LEFT, plan.t_max, alone)
        words = f"the same {plan.segments} videos, several to a block"
        exact = Side("BLoad exact", words, WIDTH // 2 + LEFT - 10, plan.t_max, packed)
        self.sides = naive, exact
        self.trains = alone[-1].lands + PAUSE
        """Frame at which training begins."""
        self.frames = self.trains + STEP * naive.steps + 2

    def draw(self, frame: int) -> Image.Image:
        """Return one frame as an RGB picture."""
        picture = Image.new("RGB", (WIDTH, TOP + PITCH * self.sides[0].rows + BOTTOM), CARD)
        pen = ImageDraw.Draw(picture)
        for side in self.sides:
            self._rows(pen, side, frame)
            self._texts(pen, side, frame, picture.height - BOTTOM + 24)
        self._legend(pen, frame)
        return picture

    def _rows(self, pen: ImageDraw.ImageDraw, side: Side, frame: int) -> None:
        """Draw tracks, padding, the bars that have begun to fall, and what each rank trains."""
        step, within = divmod((frame - self.trains) / STEP, 1)
        for row in range(side.rows):
            top, padded = TOP + row * PITCH, side.padded(row, frame)
            share = min(max((frame - self.trains) / STEP - row // RANKS, 0), 1)
            pen.rectangle(side.box(0, side.t_max, top), TRACK)
            if padded:
                used, trained = side.t_max - padded, share * side.t_max
                pen.rectangle(side.box(used, side.t_max, top), PADDING)
                if trained > used:
                    pen.rectangle(side.box(used, trained, top), WASTED)
            if row // RANKS == step < side.steps:
                x, *_ = side.box(side.t_max * within, side.t_max, top)
                pen.rectangle((x - 2, top - 3, x + 2, top + THICK + 2), WHITE)
                place = side.left - 12, top + THICK // 2
                pen.text(place, f"rank {row % RANKS}", INK, font(24), "rm")
        for bar in side.bars:
            share = min(1 - (bar.lands - frame) / FALL, 1)
            if share >= 0:
                top = round(TOP - PITCH + PITCH * (bar.row + 1) * share**2)
                box = side.box(bar.slot, bar.slot + bar.length, top)
                pen.rectangle(box, bar.colour)
                pen.rectangle((box[0], top, box[0] + 4, box[3]), WHITE)

    def _texts(self, pen: ImageDraw.ImageDraw, side: Side, frame: int, base: int) -> None:
        """Draw the title and, below the rows, the counter."""
        pen.text((side.left, 30), side.title, INK, font(42), "lt", stroke_width=1)
        pen.text((side.left, 84), side.caption, QUIET, font(28), "lt")
        padded = sum(side.padded(row, frame) for row in range(side.rows))
        colour = GOOD if side is self.sides[1] else WASTED
        pen.text((side.left, base), f"{padded:,}", colour, font(60), "lt", stroke_width=1)
        x = side.left + round(font(60).getlength(f"{padded:,}")) + 20
        pen.text((x, base + 16), "padded slots", INK, font(32), "lt")

    def _legend(self, pen: ImageDraw.ImageDraw, frame: int) -> None:
        """Draw, below the packed blocks, what is going on and what the colours mean."""
        naive, exact = self.sides
        left, top = exact.left, TOP + PITCH * exact.rows + 34
        lines = ["Before the epoch, from the lengths alone:", "whole videos fall into blocks"]
        if frame >= self.trains + STEP * exact.steps:
            lines = [f"{naive.steps / exact.steps:.1f} times fewer slots to compute,"]
            lines += [f"{exact.steps} steps instead of {naive.steps}"]
        elif frame >= self.trains:
            lines = [f"Training on {RANKS} ranks, in step:", "the state is cleared at every start"]
        pen.text((left, top), "\n".join(lines), INK, font(34), "la", spacing=12)
        colours = {"video": VIDEOS[0], "start": WHITE, "padding": PADDING}
        for number, (name, colour) in enumerate((colours | {"padding, computed": WASTED}).items()):
            x, y = left + 200 * (number % 2), top + 136 + 48 * (number // 2)
            pen.rectangle((x + 26 if name == "start" else x, y, x + 32, y + 24), colour)
            pen.text((x + 46, y + 13), name, QUIET, font(28), "lm")


if __name__ == "__main__":
    lengths = action_genome_lengths()
    few = np.random.default_rng([0, 0]).choice(len(lengths), 16, replace=False)
    scene = Scene(make_plan(lengths[few], "bload_exact", int(lengths.max())))
    *frames, end = (scene.draw(frame) for frame in range(scene.frames))
    palette, dither = end.quantize(64), Image.Dither.NONE
    # The end comes first, where nothing animates.
    first, *rest = (frame.quantize(palette=palette, dither=dither) for frame in [end, *frames])
    options: dict = {"duration": [HOLD_MS, *[FRAME_MS] * len(rest)], "loop": 0, "disposal": 1}
    path = sys.argv[1] if sys.argv[1:] else Path(__file__).with_name("blocks.gif")
    first.save(path, save_all=True, append_images=rest, **options)
