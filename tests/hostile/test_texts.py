"""What a report and a table show of a run is text: no tag, no column, no code, no formula."""

import csv
import io
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.csv_file import csv_text
from experiments.report import packing
from experiments.report.page import write_report
from tests.experiments.report.made_runs import make_record, make_run, write
from tests.hostile.conftest import hostile
from tests.hostile.damage import TEXTS
from training.page.exhibits import _line
from training.runs import write_results

MARKUP = "\\<script>alert(1)</script>\\|`<img src=x>` [a](javascript:b)\n# <b>\u202e"
FORMULAS = ("=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1")
PIECES = st.lists(st.sampled_from([*"\\|<>`[](]a\n"]) | TEXTS, max_size=12).map("".join)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of runs with markup in every text, and their folder."""
    packing.EPOCHS = 1
    folder = tmp_path_factory.mktemp("runs") / "paper_table"
    markup = {f"{group}__name": MARKUP for group in ("model", "dataset")}
    make_run(folder, "bload", name="<b onclick=x>`|", **markup)
    make_run(folder, "naive", name="=cmd|x", **markup, train__note="=1+1")
    write(folder / "odd" / "error.json", {"error": MARKUP})
    make_record(folder)
    write_report(folder)
    return folder


def test_no_tag_and_no_column_of_a_run_is_in_markdown(report):
    text = (report / "report.md").read_text()
    assert "script" in text
    assert "\u202e" not in text
    assert not re.search(r"(?<!\\)(\\\\)*<", text)
    for line in text.splitlines():
        assert line.count("`") % 2 == 0, line
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        columns = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in table.splitlines()}
        assert len(columns) == 1, table


def test_no_tag_of_a_run_is_in_html(report):
    class Tags(HTMLParser):
        def __init__(self):
            super().__init__()
            self.found = set()

        def handle_starttag(self, tag, attrs):
            self.found |= {tag, *(name for name, _ in attrs)}

    tags = Tags()
    tags.feed((report / "report.html").read_text())
    assert "table" in tags.found
    assert not tags.found & {"script", "img", "b", "onclick"}


@hostile(0.01)
@given(text=PIECES)
def test_a_line_of_markdown_has_no_live_sign(text):
    line = _line(text)
    assert "\n" not in line
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<]", re.sub(r"\\[\\|<(]", "", line))


def cells(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]


@hostile(0.01)
@given(texts=st.lists(st.sampled_from(FORMULAS) | PIECES, min_size=1), number=st.floats())
def test_no_text_of_a_table_is_a_formula(texts, number):
    texts = [text.encode(errors="replace").decode() for text in texts]
    table = pd.DataFrame({"text": texts, "=name": number})
    found = cells(csv_text(table))
    numbers = {repr(number), str(number), ""}
    assert not [
        c for c in found if c.lstrip(" ").startswith(("=", "+", "-", "@")) and c not in numbers
    ]


def test_results_csv_has_no_formula_and_keeps_numbers(report):
    write_results(report)
    found = cells((report / "results.csv").read_text())
    assert {"'=cmd|x", "'=1+1", "930"} <= {*found}
    assert not [cell for cell in found if cell.startswith("=")]
