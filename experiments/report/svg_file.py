"""Charts as SVG files that stand alone: title, legend, drawing and the colours of the page."""

import math
import re
from html import escape
from pathlib import Path

from experiments.report.chart import LETTER, WIDTH
from experiments.report.document import Chart, Page

STYLE = (Path(__file__).parent / "chart.css").read_text(encoding="utf-8")
MARGIN, LINE, SWATCH = 12, 20, (26, 14)
TITLE_LETTER = 9.2
"""At most so wide is a letter of the title on average."""
_SIZE = re.compile(r'<svg viewBox="0 0 \S+ ([\d.]+)"')


def svg_files(page: Page) -> dict[str, str]:
    """File name -> drawing, of every chart of a page that is one plot."""
    charts = (block for section in page.sections for block in section.blocks)
    return {
        f"{re.sub(r'[^a-z0-9]+', '_', chart.title.lower()).strip('_')}.svg": svg_file(chart)
        for chart in charts
        if isinstance(chart, Chart) and 'class="plot"' in chart.svg
    }


def svg_file(chart: Chart) -> str:
    """The chart as one SVG document; its text alternative is the description."""
    legend, top = _legend(chart, MARGIN + 2 * LINE)
    height = float(_SIZE.search(chart.svg)[1])
    whole = top + height + MARGIN
    width = max(WIDTH, math.ceil(TITLE_LETTER * len(chart.title))) + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole:g}" '
        f'width="{width}" height="{whole:g}" role="img">'
        f"<title>{escape(chart.title)}</title><desc>{escape(chart.alternative)}</desc>"
        f"<style>{STYLE}text.title {{ font-weight: 600; font-size: 14px; }}</style>"
        f'<rect width="{width}" height="{whole:g}" fill="var(--paper)"/>'
        f'<text class="label title" x="{MARGIN}" y="{MARGIN + 12}">{escape(chart.title)}</text>'
        f"{legend}{_placed(chart.svg, MARGIN, top, WIDTH, height)}</svg>\n"
    )


def _legend(chart: Chart, y: float) -> tuple[str, float]:
    """Its entries in lines from `y` on, and where the plot may begin."""
    parts, x = [], float(MARGIN)
    for drawing, label in chart.legend:
        width = SWATCH[0] + 6 + LETTER * len(label)
        if x > MARGIN and x + width > WIDTH:
            x, y = float(MARGIN), y + LINE
        parts.append(_placed(drawing, x, y - 11, *SWATCH))
        parts.append(f'<text x="{x + SWATCH[0] + 6:g}" y="{y:g}">{escape(label)}</text>')
        x += width + 10
    return "".join(parts), y + (MARGIN if parts else -LINE)


def _placed(svg: str, x: float, y: float, width: float, height: float) -> str:
    place = f'<svg x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
    return svg.replace("<svg ", place, 1)
