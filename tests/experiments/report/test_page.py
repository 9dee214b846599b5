"""The files: well-formed, self-contained, the same figures in each."""

import csv
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bload.__main__ import main
from bload.errors import InputError
from experiments.report import write_report
from experiments.report.chart import Point, Series, line_chart
from experiments.report.scale import scale
from tests.experiments.report.made_runs import make_run

ROOT = Path(__file__).parents[2]
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Balance(HTMLParser):
    """Fails where an element is closed that is not the last one opened."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.ids, self.links = [], set(), [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.seen.add(tag)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [v for k, v in attrs.items() if k in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"


@pytest.fixture(scope="module")
def html(made):
    return (made / "report.html").read_text()


def test_the_page_is_balanced_and_fetches_nothing(html):
    page = Balance()
    page.feed(html)
    page.close()
    assert not page.open
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert not page.seen & {"script", "img", "iframe", "object"}
    assert not re.search(r"https?://|@import|url\((?!#)", html)


def test_every_drawing_is_well_formed_and_inside_its_frame(html):
    drawings = re.findall(r"<svg.*?</svg>", html, flags=re.S)
    assert len(drawings) > 15
    for drawing in drawings:
        svg = ElementTree.fromstring(drawing)
        if "viewBox" not in svg.attrib:
            continue
        width, height = map(float, svg.attrib["viewBox"].split()[2:])
        for text in svg.iter("text"):
            assert 0 <= float(text.attrib["x"]) <= width
            assert 0 <= float(text.attrib["y"]) <= height
        assert "nan" not in drawing


def test_every_plot_is_a_file_of_its_own_too(made, tmp_path):
    write_report(made, charts=tmp_path / "charts")
    files = sorted((tmp_path / "charts").iterdir())
    assert len(files) == (made / "report.html").read_text().count('class="plot"')
    for file in files:
        svg = ElementTree.parse(file).getroot()
        title, told = (svg.find(f"{{*}}{tag}").text for tag in ("title", "desc"))
        assert file.stem == re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
        assert len(told) > 40
        assert not re.search(r"href|@import|url\((?!#)", file.read_text())


def test_every_chart_has_a_text_alternative(html):
    charts = re.findall(r'<div role="img" aria-label="([^"]*)"><svg', html)
    assert len(charts) == html.count("<figure>")
    assert all(len(text) > 40 for text in charts)


def test_names_are_escaped(tmp_path):
    run = make_run(tmp_path / "paper_table", "bload", name="<b onclick=x>&")
    (run / "summary.json").unlink()
    (run / "error.json").write_text(json.dumps({"error": "<script>x</script> | `y`"}))
    report = write_report(tmp_path)
    html = report.html.read_text()
    assert "<script" not in html
    assert "<b onclick" not in html
    assert "\\| `y`" in report.markdown.read_text()


def test_texts_that_are_no_unicode_are_written_all_the_same(tmp_path):
    run = make_run(tmp_path / "paper_table", "bload")
    (run / "summary.json").unlink()
    (run / "error.json").write_text('{"error": "half a sign: \\ud800"}')
    assert "half a sign: \\ud800" in write_report(tmp_path).markdown.read_text()


def test_the_same_runs_give_the_same_bytes(made):
    before = [path.read_bytes() for path in sorted(made.glob("report.*"))]
    write_report(made)
    assert [path.read_bytes() for path in sorted(made.glob("report.*"))] == before
    assert len(before) == 3


def test_markdown_tables_have_one_width(made):
    lines = (made / "report.md").read_text().splitlines()
    rows = 0
    for above, line in pairwise(lines):
        if above.startswith("|") and line.startswith("|"):
            cells = [len(re.findall(r"(?<!\\)\|", text)) for text in (above, line)]
            assert cells[0] == cells[1], line
            rows += 1
    assert rows > 100


def test_markdown_keeps_the_notes_of_charts(made):
    text = (made / "report.md").read_text()
    assert "Mean and range over shapes of the distribution" in text
    assert "Slots of a block are walked one after another" in text
    assert "line: mean over seeds, band: lowest to highest seed" in text


def test_csv_holds_unrounded_figures_with_intervals_and_counts(made):
    with (made / "report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (recall,) = (
        row
        for row in rows
        if (row["row"], row["column"]) == ("Recall@20, equal epochs: ours", "BLoad")
    )
    runs = (made / "paper_table").glob("bload-*/summary.json")
    values = [100 * json.loads(path.read_text())["with/recall@20"] for path in runs]
    assert float(recall["value"]) == pytest.approx(math.fsum(values) / 3, rel=1e-12)
    assert float(recall["low"]) < min(values) + 1
    assert recall["count"] == "3"
    for row in rows:
        assert None not in row.values()


def test_the_command_prints_verdicts_and_paths(made, capsys):
    assert main(["report", str(made)]) == 0
    out = capsys.readouterr().out
    assert "reproduced" in out
    assert str(made / "report.html") in out


def test_the_library_does_without_what_the_report_needs(tmp_path):
    code = (
        "import sys; sys.modules['jinja2'] = sys.modules['scipy'] = None; import bload; "
        f"from bload.__main__ import main; sys.exit(main(['report', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "run pip install jinja2 scipy" in done.stderr


def test_a_folder_that_is_not_there_is_told_in_one_sentence(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is not a folder of runs" in error


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    make_run(tmp_path, "bload")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(InputError, match=r"cannot write .*report\.html"):
        write_report(tmp_path)


def test_a_logarithmic_axis_shows_zero_on_its_lowest_tick():
    axis = scale([0, 15, 2000], 200, 0, log=True)
    assert axis(0) == 200
    assert axis.text(axis.ticks[0]) == "0"
    assert 0 < axis(2000) < axis(15) < 200


def test_one_point_makes_a_chart():
    svg = line_chart([Series("one", (Point(3, 3),), 0)], "x", "y")
    assert "nan" not in svg
    ElementTree.fromstring(svg)


def test_every_plot_is_written_as_a_drawing_that_stands_alone(copied, tmp_path):
    folder = tmp_path / "new" / "charts"
    assert main(["report", str(copied), "--charts", str(folder)]) == 0
    plots = (copied / "report.html").read_text().count('class="plot"')
    files = sorted(folder.iterdir())
    assert len(files) == plots > 5
    assert folder / "recall_20_against_training_time.svg" in files
    for file in files:
        root = ElementTree.parse(file).getroot()
        assert root.tag.endswith("}svg")
        assert all(float(root.get(side)) > 100 for side in ("width", "height"))
        text = "".join(root.itertext())
        assert "--c3:" in text, "the colours are in the file"
        assert "url(http" not in text
