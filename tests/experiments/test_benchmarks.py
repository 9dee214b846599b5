"""Benchmarks: every quick form makes its tables, and what is stale is named."""

import subprocess
from importlib import import_module

import pytest

from experiments.benchmarks.__main__ import ALL, changed_since, main
from experiments.study import DOCS, ROOT

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("loading", "scaling", "chunks")]


@pytest.mark.parametrize("name", ["packing", *SLOW, pytest.param("gpu", marks=pytest.mark.slow)])
def test_the_quick_form_makes_every_table_and_writes_no_page(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = {page: page.read_text() for page in DOCS.rglob("*.md")}
    main(["--quick", name])
    shown = capsys.readouterr().out
    for table in import_module(f"experiments.benchmarks.{name}").TABLES.values():
        assert f"{table.caption}\n\n| " in shown
    assert {page: page.read_text() for page in DOCS.rglob("*.md")} == before


def test_tables_are_stale_if_what_they_time_has_changed(tmp_path):
    def git(*words):
        line = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(line, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init")
    (tmp_path / "timed.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "one")
    commit = git("rev-parse", "HEAD").strip()
    assert changed_since(commit, ["timed.py"], tmp_path) == []
    (tmp_path / "timed.py").write_text("2")
    assert changed_since(commit, ["timed.py"], tmp_path) == ["timed.py"]
    assert changed_since(40 * "0", ["timed.py"], tmp_path) == ["timed.py"]
    for name in ALL:
        for path in import_module(f"experiments.benchmarks.{name}").CODE:
            assert (ROOT / path).exists()
