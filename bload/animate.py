"""Writing the animation of blocks as a GIF."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bload.errors import InputError, spell
from bload.plan import Plan
from bload.scene import (
    CARD,
    DIM,
    GOOD,
    INK,
    PADDING,
    QUIET,
    TRACK,
    VIDEOS,
    WASTED,
    WHITE,
    Colour,
    Scene,
    mix,
)

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FRAME_MS, HOLD_MS = 50, 3200
"""Time of a frame, and of the last one before the animation begins again."""
MOST = 60
"""Segments that can be told apart."""


def animate_plan(plan: Plan, path: str | Path, ranks: int = 2, title: str = "BLoad") -> Path:
    """Write a GIF of sequences that fall into blocks and of ranks that train them in step.

    Each segment of the plan falls into a row of its own on the left, as naive padding has it, and
    into its block on the right. Then `ranks` ranks train a row each per step, on both sides.

    Args:
        plan: of 1 to 60 segments; 16 look best.
        path: file to write, ``.gif``.
        title: name of the right side.

    Raises:
        InputError: too many segments, another suffix, a path that cannot be written, or Pillow is
            not installed.
    """
    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise InputError(f"cannot animate to {path}; name a .gif file")
    if plan.segments > MOST:
        raise InputError(
            f"the animation would show {plan.segments} sequences or pieces; {MOST} at most can be "
            f"told apart, so show fewer with {spell('rows')}"
        )
    if find_spec("PIL") is None:
        raise InputError("an animation needs Pillow; run pip install pillow")
    try:
        frames = _frames(Scene(plan, ranks, title))
        times = [FRAME_MS] * (len(frames) - 1) + [HOLD_MS]
        frames[0].save(
            path, save_all=True, append_images=frames[1:], duration=times, loop=0, disposal=1
        )
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; name another place") from error
    return path


def _frames(scene: Scene) -> list["Picture"]:
    """Draw all frames, in one palette so that flat areas stay flat."""
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in _palette() for part in colour])
    return [
        scene.draw(frame).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in range(scene.frames)
    ]


def _palette() -> list[Colour]:
    """Return every colour drawn: flat ones, and texts fading into the card."""
    flat = [CARD, TRACK, INK, QUIET, WHITE, PADDING, WASTED, GOOD, *VIDEOS]
    flat += [mix(CARD, colour, DIM) for colour in (PADDING, WASTED, *VIDEOS)]
    texts = (INK, QUIET, WASTED, GOOD)
    return flat + [mix(CARD, colour, n / 12) for colour in texts for n in range(1, 12)]
