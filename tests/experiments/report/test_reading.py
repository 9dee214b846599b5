"""What a reader meets: the first plot at once, names beside dots, no figure that means nothing."""

import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest

from tests.experiments.report.test_tables import OVERVIEW

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
SHOWN = """
const plot = document.querySelector('figure > div').getBoundingClientRect();
document.title = (720 - plot.top) / plot.height;
"""


@pytest.fixture(scope="module")
def page(made):
    return ElementTree.parse(made / "report.html").getroot()


def text_of(element):
    return " ".join("".join(element.itertext()).split())


def test_little_but_words_stands_before_the_first_plot(made):
    """Three lines of introduction, two of links, two headings."""
    before = re.search("<body>(.*?)<svg", (made / "report.html").read_text(), re.DOTALL)[1]
    assert not re.search("<(table|article|img|figure.*<figure)", before, re.DOTALL)
    assert len(text_of(ElementTree.fromstring(f"<p>{re.sub('<[^>]*>', '', before)}</p>"))) < 900


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_the_first_plot_is_on_the_first_screen(made, tmp_path):
    text = (made / "report.html").read_text()
    (tmp_path / "page.html").write_text(text.replace("</body>", f"<script>{SHOWN}</script></body>"))
    line = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,720"]
    line += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*line, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=300
    )
    shown = float(re.search("<title>(.*?)</title>", done.stdout)[1])
    assert shown > 0.9, "of its height"


def test_a_dot_without_a_line_has_its_name_beside_it(page):
    """Naive has one epoch at equal work."""
    drawing = page.find(".//figure")
    assert "at equal work" in text_of(drawing.find("figcaption"))
    names = [text_of(text) for text in drawing.iterfind(".//{*}text")]
    assert [names.count(of) for of in ("naive", "sampling", "BLoad")] == [2, 1, 1]


def test_no_cell_takes_the_papers_recall_from_ours(page):
    """They are of other data, so that a difference between them says nothing of either."""
    tables = [[[*map(text_of, row)] for row in table.iter("tr")] for table in page.iter("table")]
    (overview,) = (table for table in tables if table[0][0] == "measure")
    figures = {row[0]: [re.match(r"[-+]?[\d,.]+", cell) for cell in row[1:]] for row in overview}
    values = {
        name: [float(found[0].replace(",", "")) if found else None for found in row]
        for name, row in figures.items()
    }
    paper = values["Recall@20, %: paper, Action Genome"]
    ours = [row for name, row in values.items() if re.match("Recall@20, equal .*ours", name)]
    differences = [
        mine - theirs
        for row in ours
        for mine, theirs in zip(row, paper, strict=True)
        if mine is not None and theirs is not None
    ]
    assert (OVERVIEW in text_of(page), len(ours), len(differences)) == (True, 2, 4)
    shown = [cell for row in values.values() for cell in row if cell is not None]
    assert not [cell for cell in shown for of in differences if abs(abs(cell) - abs(of)) < 0.06]
    signed = {f"{sign * of:+.1f}" for of in differences for sign in (1, -1)}
    assert not [cell for table in tables for row in table for cell in row if cell[:5] in signed]
