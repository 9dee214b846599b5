"""Blocks of a plan as SVG: one row a block, on one scale of slots for all loaders."""

from bload.plan import Plan
from experiments.report.chart import WIDTH

ROW, BAR = 13, 9
COLOURS = 6


def draw_blocks(plan: Plan, rows: int, widest: int) -> str:
    """The first `rows` blocks; `widest` slots take the whole width. Colours come from the page."""
    shown, scale = min(rows, plan.blocks), WIDTH / widest
    parts = []
    colour = 0
    for row in range(shown):
        block, y = plan.block(row), row * ROW
        parts.append(_rectangle("pad", 0, y, plan.t_max * scale))
        for start, length in zip(block.starts.tolist(), block.length.tolist(), strict=True):
            # neighbours differ: colours go round, along the row and from row to row
            parts.append(_rectangle(f"video v{colour % COLOURS}", start * scale, y, length * scale))
            parts.append(_rectangle("start", start * scale, y, 2))
            colour += 1
    base = shown * ROW + 2
    for tick in sorted({0, plan.t_max, widest}):
        anchor = "start" if tick == 0 else "middle" if tick < widest else "end"
        parts.append(
            f'<text x="{tick * scale:.1f}" y="{base + 12}" text-anchor="{anchor}">{tick}</text>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {base + 16}" class="blocks" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _rectangle(name: str, x: float, y: float, width: float) -> str:
    return f'<rect class="{name}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}"/>'
