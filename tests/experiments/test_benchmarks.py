"""Benchmarks: every quick form makes its tables."""

from importlib import import_module
from importlib.util import find_spec

import pytest

from experiments.benchmarks import gpu
from experiments.benchmarks.__main__ import main
from experiments.study import DOCS

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("loading", "scaling", "chunks")]


@pytest.mark.parametrize("name", ["packing", *SLOW, pytest.param("gpu", marks=pytest.mark.slow)])
def test_the_quick_form_makes_every_table_and_writes_no_page(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = {page: page.read_text() for page in DOCS.rglob("*.md")}
    main(["--quick", name])
    shown = capsys.readouterr().out
    for part, table in import_module(f"experiments.benchmarks.{name}").TABLES.items():
        if part == "language model" and not find_spec("transformers"):
            assert "language model: no row for bload_exact, compiled" in shown
        else:
            assert f"{table.caption}\n\n| " in shown
    assert {page: page.read_text() for page in DOCS.rglob("*.md")} == before


def test_rows_that_do_not_end_in_time_are_a_line_each(monkeypatch, capsys):
    monkeypatch.setitem(gpu.PARTS, "walks", (0.5, gpu.walks))
    assert [*gpu.rows_of("walks", toy=False)] == []
    assert capsys.readouterr().out.count("0.5 seconds are over\n") == 4
