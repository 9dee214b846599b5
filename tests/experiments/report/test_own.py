"""Runs of one's own come first, on the page and in the terminal; the paper comes after them."""

import sys
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from experiments.report.__main__ import main
from experiments.report.page import SECTIONS, write_report
from tests.experiments.report.made_runs import make_run

ODD = "naive (b) [c] #1 <d>"


@pytest.fixture
def own(tmp_path):
    """A folder of two runs, of which one has a page."""
    make_run(tmp_path / "runs", "bload", name="mine", seconds=40)
    run = make_run(tmp_path / "runs", "naive", name=ODD)
    (run / "report.html").write_text("its page")
    return tmp_path / "runs"


def read(folder):
    """The page, and its sections by their anchors."""
    page = ElementTree.parse(write_report(folder).html).getroot()
    return page, {section.get("id"): section for section in page.iter("section")}


def texts(element, *tags):
    found = (one for one in element.iter() if one.tag in tags)
    return [" ".join("".join(one.itertext()).split()) for one in found]


def test_the_table_of_runs_is_first_and_leads_to_the_pages_of_those_that_have_one(own):
    _, sections = read(own)
    assert next(iter(sections)) == "runs"
    assert [*sections][-4:] == ["claims", "paper", "origin", "lacking"]
    (table,) = sections["runs"].iter("table")
    head, *rows = (texts(row, "th", "td") for row in table.iter("tr"))
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert found.keys() == {"mine", ODD}
    costs = ("padded", "deleted", "seconds per epoch")
    assert [found["mine"][of] for of in costs] == ["930", "0", "40.3"]
    assert 55 < float(found["mine"]["Recall@20, %"]) < 65
    (link,) = table.iter("a")
    assert (own / unquote(link.get("href"))).read_text() == "its page"
    assert "".join(link.itertext()) == ODD
    assert f"]({link.get('href')})" in (own / "report.md").read_text()


def test_claims_that_nothing_tests_are_one_table_and_what_lacks_is_another(own):
    """That runs of one's own delete no frame says nothing of the paper's."""
    page, sections = read(own)
    assert not [*page.iter("article")]
    claims = texts(sections["claims"].find(".//tbody"), "th")
    assert len(claims) == 7
    assert "no frame is deleted" in claims
    assert not [text for text in texts(page, "p") if text.startswith("Not here")]
    commands = texts(sections["lacking"], "td")
    assert {"python -m experiments.deadlock", "python train.py -m experiment=tmax_sweep"} <= {
        *commands
    }
    assert len(commands) == len({*commands})


def test_the_terminal_shows_the_runs_and_then_the_paper(own, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", str(own)])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert "padded frames" in lines[0]
    assert {lines[1].split()[0], lines[2].split()[0]} == {"mine", str(own / ODD).split()[0]}
    assert str(own / ODD / "report.html") in lines[2]
    claims = [at for at, line in enumerate(lines) if line.startswith("not tested  ")]
    assert len(claims) == 7
    assert 2 < claims[0] < claims[-1] < lines.index(str(own / "report.html"))


def test_an_empty_folder_and_one_of_many_runs_have_a_page(tmp_path):
    page, sections = read(tmp_path)
    assert "There is no finished run here" in texts(sections["runs"], "p")[0]
    assert "There is no run here" in write_report(tmp_path).summary
    assert not [*page.iter("article")]
    for seed in range(21):
        make_run(tmp_path, "bload", seed)
    _, sections = read(tmp_path)
    assert sections["runs"].find(".//details").get("open")  # a long table is folded elsewhere


def test_with_the_papers_comparison_among_the_runs_the_page_is_about_the_paper(own):
    make_run(own / "paper_table", "bload")
    page, sections = read(own)
    assert [*sections] == [*SECTIONS]
    assert len([*page.iter("article")]) == 7
