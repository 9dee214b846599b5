"""The files: well-formed, self-contained, the same in each, nothing from a run unescaped."""

import json
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from bload.errors import InputError
from experiments.report import charts
from experiments.report import page as page_module
from experiments.report.__main__ import main
from experiments.report.page import SECTIONS, write_report
from experiments.report.results import read_results
from tests.experiments.report.made_runs import command, make_record, make_run, write
from tests.training.jobs import REPOSITORY


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
    assert len(drawings) == 6


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


def test_every_plot_is_an_svg_and_a_pdf_file_and_the_same_each_time(made, page, tmp_path):
    place = made.parent / "charts"
    drawn = sorted(place.glob("*.svg"))
    assert len(drawn) == len(page.findall(".//figure")) == len([*place.glob("*.pdf")])
    for file in drawn:
        title = ElementTree.parse(file).getroot().find("{*}title").text
        assert file.stem == re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
        assert file.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    chart, _ = SECTIONS["story"][1](read_results(made))
    for kind in charts.KINDS:
        chart.save(tmp_path / "again", kind=kind)
        file = place / f"recall_20_against_work_at_equal_work.{kind}"
        assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_plots_have_literal_colours_on_white_and_need_no_typeface(made):
    """So that librsvg, Inkscape and LaTeX draw them as browsers do."""
    for file in (made.parent / "charts").glob("*.svg"):
        svg = ElementTree.parse(file).getroot()
        styles = [style for one in svg.iter() if (style := one.get("style"))]
        paints = re.findall(r"(?:fill|stroke): ?([^;]+)", ";".join(styles))
        literal = re.compile(r"#[0-9a-f]{6}|none|url\(#\w+\)")
        assert len(paints) > 20
        assert not [paint for paint in paints if not literal.fullmatch(paint)]
        assert not {"text", "foreignObject"} & {one.tag.split("}")[1] for one in svg.iter()}
        assert svg.find(".//{*}path").get("style").replace(" ", "") == "fill:#ffffff"


def test_the_table_in_latex_is_whole_and_has_the_intervals(made):
    """It is compiled too, where there is LaTeX."""
    file = made.parent / "table.tex"
    text = file.read_text()
    body = text[text.index("\\toprule") : text.index("\\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith("\\\\")]
    assert len(lines) > 15
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {5}
    assert text.count("{") == text.count("}")
    assert "ours \\(-\\) paper" in body  # a minus, where a hyphen would be set
    assert not re.search(r"[& \[]-[ \d]", body)
    assert "as a share of that of BLoad exact" in text
    assert not re.search(r"(?<!\\)[#$_]", text)
    assert re.search(r"\\scriptsize \[\d\.\d\d, \d\.\d\d\]", body)
    if shutil.which("pdflatex"):
        head = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}"
        for code in (text, head + "\\input{table}\\end{document}"):
            (made.parent / "job.tex").write_text(code)
            job = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "job.tex"]
            done = subprocess.run(job, cwd=made.parent, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout


def test_what_comes_from_runs_is_escaped(tmp_path):
    run = make_run(tmp_path / "paper_table", "bload", name="<b onclick=x>&", loader__name="a|$\\x")
    make_run(tmp_path / "paper_table", "naive")
    report = write_report(tmp_path)
    page, text = report.html.read_text(), report.markdown.read_text()
    assert not re.search("<script|<b onclick", page)
    assert "&lt;b onclick" in page
    assert run.name.replace("<", r"\<") in text


def test_the_command_prints_verdicts_and_paths_and_refuses_in_a_sentence(
    tmp_path, capsys, monkeypatch
):
    runs, place, table = tmp_path / "runs", tmp_path / "new" / "charts", tmp_path / "t.tex"
    make_run(runs / "paper_table", "bload")
    monkeypatch.setattr(
        sys, "argv", ["report", str(runs), "--charts", str(place), "--latex", str(table)]
    )
    main()
    out = capsys.readouterr().out
    assert {"reproduced", str(runs / "report.html")} <= {*out.split()}
    files = [file.suffix for file in place.iterdir()]
    assert {*files} == {".svg", ".pdf"}
    assert {f"{place}: {len(files)} files", str(table)} <= {*out.splitlines()}
    assert "toprule" in table.read_text()
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="2"):
        main()
    error = capsys.readouterr().err
    assert (error.count("\n"), "none" in error) == (1, True)
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
        **{9: "Recall@20, equal epochs: ours, synthetic data"},
        **{10: "Recall@20, equal work: ours, synthetic data"},
        **{11: "Work to the same Recall@20, naive = 1: ours"},
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
