"""The files: well-formed, self-contained, the same in each, nothing from a run unescaped."""

import errno
import json
import re
import sys
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest

from bload.errors import InputError
from experiments.report import charts, write_report
from experiments.report import page as page_module
from experiments.report.__main__ import main
from experiments.report.page import SECTIONS
from experiments.report.results import read_results
from tests.experiments.jobs import REPOSITORY
from tests.experiments.report.made_runs import command, make_record, make_run, write


@pytest.fixture(scope="module")
def page(made):
    """It is XML too, so that a parser finds what is not closed."""
    return ElementTree.parse(made / "report.html").getroot()


def test_the_page_is_well_formed_and_fetches_nothing(made, page):
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(ids) == len({*ids})
    names = ("href", "src", "{http://www.w3.org/1999/xlink}href")
    links = [link for element in page.iter() for name in names if (link := element.get(name))]
    assert {*SECTIONS} <= {link.lstrip("#") for link in links} <= {*ids, "data:,"}
    assert not {"script", "img", "iframe", "object"} & {element.tag for element in page.iter()}
    text = (made / "report.html").read_text()
    assert not re.search(r'(?<!xmlns=")(?<!xlink=")https?://|@import|url\((?!#)', text)
    drawings = page.findall(".//figure/div")
    assert all(len(drawing.get("aria-label")) > 40 for drawing in drawings)
    assert len(drawings) == 5


def test_markdown_and_html_say_the_same(made, page):
    lines = (made / "report.md").read_text().splitlines()
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("| ")]
    shown = {
        tuple(" ".join("".join(cell.itertext()).split()) for cell in row) for row in page.iter("tr")
    }
    cards = {" ".join("".join(card.itertext()).split()) for card in page.iter("article")}
    assert (len(rows) > 200, len(cards)) == (True, 7)
    for row in rows:
        says, verdict, *rest = (re.sub(r"[`\\]", "", cell).strip() for cell in row)
        card = " ".join([verdict, says, *rest])
        assert (says, verdict, *rest) in shown or card in cards or verdict == "verdict"


def test_every_plot_is_a_file_of_its_own_and_the_same_each_time(made, page):
    files = {file.stem: file.read_text() for file in (made.parent / "charts").iterdir()}
    assert len(files) == len(page.findall(".//figure"))
    for stem, text in files.items():
        svg = ElementTree.fromstring(text)
        title, said = (svg.find(f"{{*}}{tag}").text for tag in ("title", "desc"))
        assert stem == re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
        assert len(said) > 40
        assert "prefers-color-scheme: dark" in text
        assert "var(--ink)" in text
    (chart,) = SECTIONS["story"][1](read_results(made))
    assert charts.svg_file(chart) == files["recall_20_against_work_at_equal_work"]


def test_what_comes_from_runs_is_escaped(tmp_path):
    run = make_run(tmp_path / "paper_table", "bload", name="<b onclick=x>&", loader__name="a|$\\x")
    make_run(tmp_path / "paper_table", "naive")
    odd = "<script>x</script> | [a](javascript:b)"
    write(tmp_path / "paper_table" / "odd" / "error.json", {"error": odd})
    report = write_report(tmp_path)
    page, text = report.html.read_text(), report.markdown.read_text()
    assert not re.search("<script|<b onclick", page)
    assert "&lt;b onclick" in page
    assert r"\<script>x\</script> \| [a]\(javascript:b)" in text
    assert run.name.replace("<", r"\<") in text


def test_the_command_prints_verdicts_and_paths_and_refuses_in_a_sentence(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(charts, "_svg", lambda *_: '<svg viewBox="0 0 9 9"></svg>')
    runs, place = tmp_path / "runs", tmp_path / "new" / "charts"
    make_run(runs / "paper_table", "bload")
    monkeypatch.setattr(sys, "argv", ["report", str(runs), "--charts", str(place)])
    main()
    out = capsys.readouterr().out
    assert {"reproduced", str(runs / "report.html")} <= {*out.split()}
    assert [*place.iterdir()]
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="2"):
        main()
    error = capsys.readouterr().err
    assert (error.count("\n"), "none" in error) == (1, True)
    denied = PermissionError(errno.EACCES, "Permission denied", "secret")
    monkeypatch.setattr("experiments.report.__main__.write_report", Mock(side_effect=denied))
    with pytest.raises(SystemExit, match="2"):
        main()
    error = capsys.readouterr().err
    assert "Permission denied: 'secret'; check the path, its disk and its permissions\n" in error
    (runs / "report.md").unlink()
    (runs / "report.md").mkdir()
    with pytest.raises(InputError, match=r"report\.md"):
        write_report(runs)


def test_the_readmes_table_says_what_the_report_says():
    def means(line):
        return [cell.split()[0] for cell in re.sub(r"[*,]", "", line).split("|")[2:7]]

    readme, report = (
        (REPOSITORY / name).read_text() for name in ("README.md", "results/report.md")
    )
    lines = readme[readme.index("| Padded frames per epoch") :].splitlines()
    for line, name in {
        **{1: "Padded frames: ours", 3: "Deleted frames: ours", 5: "Times faster than naive: ours"},
        **{6: "Speed on 2 ranks, padding computed: ours"},
        **{7: "Speed on 2 ranks, padding skipped: ours"},
        **{9: "Recall@20, equal epochs: ours", 10: "Recall@20, equal work: ours"},
    }.items():
        (row,) = re.findall(rf"^\| {name} \|.*", report, re.M)
        for ours, found in zip(means(lines[line]), means(row), strict=True):
            decimals = len(ours.partition(".")[2])
            assert abs(float(ours) - float(found)) <= 0.51 * 10**-decimals, (name, ours, found)


def test_a_bug_of_the_report_is_shown_with_its_place(tmp_path, monkeypatch):
    def fail(results):
        return {}["steps"]

    make_run(tmp_path / "paper_table", "bload")
    monkeypatch.setitem(page_module.SECTIONS, "origin", ("Origin", fail))
    with pytest.raises(InputError, match=r"a bug .*KeyError: 'steps', in page\.py line") as caught:
        write_report(tmp_path)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("key", ["device", "t_max", "epochs"])
def test_a_figure_that_is_missing_does_not_stop_the_report(tmp_path, key):
    summary = make_run(tmp_path / "paper_table", "bload") / "summary.json"
    write(summary, {k: v for k, v in json.loads(summary.read_text()).items() if k != key})
    make_record(tmp_path / "paper_table", sweeps=[command("paper_table", command=None)])
    assert "<td" in write_report(tmp_path).html.read_text()
