"""The benchmark: its tables in the docs are those of the committed record; every part runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bload import InputError
from experiments import benchmark
from experiments.benchmark import PARTS, fill_page, run
from experiments.benchmarks.call_counter import CallCounter
from experiments.benchmarks.part import Part

HERE = Path(__file__).parents[2]


@pytest.fixture
def record():
    about = {"machine": {"cores": 2, "cpu": "a CPU"}, "git": "0123456789", "started": "2026-11-23T"}
    versions = {"versions": {"python": "3.11", "torch": "2", "numpy": "2"}}
    rows = [["training", 400.0, 1.0], ["the measure alone", 6648.4, None]]
    part = {"rows": rows, "quick": False, "git": "0123456789-dirty"}
    return about | versions | {"parts": {"evaluation": part}}


def test_tables_of_a_record_go_between_the_marks_of_a_page(record):
    about, others = (
        "<!-- table about -->\nold\n<!-- end -->",
        "<!-- table evaluation -->\n<!-- end -->",
    )
    page = f"# Page\n{about}\n{others}\nlast"
    filled = fill_page(page, record)
    assert "2 cores of a CPU, one thread, Python 3.11" in filled
    assert "commit 0123456-dirty" in filled
    assert "| the measure alone |      6,648 |" in filled
    assert "old" not in filled
    assert filled.endswith("last")
    assert fill_page(filled, record) == filled


def test_docs_hold_the_tables_of_the_committed_record():
    page = (HERE / "docs/performance.md").read_text()
    made = json.loads((HERE / "results/benchmark.json").read_text())
    assert set(made["parts"]) == set(PARTS)
    assert fill_page(page, made) == page


def test_a_part_that_failed_and_a_page_without_marks_are_refused(record):
    with pytest.raises(InputError, match="the page has no '<!-- table "):
        fill_page("# Performance\n", record)
    record["parts"]["evaluation"]["quick"] = True
    with pytest.raises(InputError, match="is of the short form; measure it without --quick"):
        fill_page("", record)
    record["parts"]["evaluation"] = {"error": "out of memory", "git": None}
    with pytest.raises(InputError, match="part evaluation of the record failed: out of memory; me"):
        fill_page("", record)


def test_numbers_are_written_as_their_columns_say():
    part = Part(("case", "slots", "s"), ("", ",", ".2f"), lambda quick: [])
    lines = part.table([["one", 12_345, 0.125], ["two", 7, None]]).splitlines()
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]] == [
        ["one", "12,345", "0.12"],
        ["two", "7", ""],
    ]


def test_operators_are_counted():
    ones = torch.ones(3)
    with CallCounter() as counter:
        (ones + ones).exp()
    assert dict(counter.calls) == {"aten.add.Tensor": 1, "aten.exp.default": 1}


class Told(list):
    """What goes through the pipe."""

    send = list.append


def fail(quick):
    raise MemoryError("not enough")


def test_a_part_that_fails_is_noted_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    parts = {"bad": Part(("s",), (".1f",), fail), "good": Part(("s",), (".1f",), lambda _: [[2]])}
    monkeypatch.setattr(benchmark, "PARTS", parts)

    def in_this_process(name, quick):
        told = Told()
        benchmark._measure(name, quick, told)
        return told[0]

    monkeypatch.setattr(benchmark, "_apart", in_this_process)
    path = tmp_path / "record.json"
    assert not run(["bad", "good"], quick=True, path=path)
    found = json.loads(path.read_text())["parts"]
    assert found["bad"]["error"] == "MemoryError: not enough"
    assert found["good"]["rows"] == [[2]]
    assert run(["good"], quick=True, path=path)
    assert json.loads(path.read_text())["parts"].keys() == {"bad", "good"}


@pytest.mark.slow
def test_the_short_form_measures_every_part(tmp_path):
    out = tmp_path / "record.json"
    command = [sys.executable, "-m", "experiments.benchmark", "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = json.loads(out.read_text())["parts"]
    assert {name: "rows" in part and len(part["rows"]) > 0 for name, part in parts.items()} == (
        dict.fromkeys(PARTS, True)
    )
