"""The report as one HTML page: styles, drawings and figures inside, nothing fetched."""

import re
from itertools import count

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from experiments.report.document import Block, Page

_CODE = re.compile(r"`([^`]+)`")


def render_html(page: Page) -> str:
    """The page by `page.html` and `page.css`; texts are escaped, drawings are ours."""
    environment = Environment(
        loader=PackageLoader("experiments.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    environment.filters["drawing"] = Markup
    environment.tests["kind"] = _is_kind
    return environment.get_template("page.html").render(page=page, number=count(1).__next__)


def _prose(text: str) -> Markup:
    """Escaped text in which `code` between backticks is set as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _is_kind(block: Block, kind: str) -> bool:
    return type(block).__name__ == kind
