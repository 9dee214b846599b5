"""The CSV of finished runs: a row a run, whoever writes at the same time."""

import csv

import pytest
import torch.multiprocessing as mp

from experiments.results import upsert_result


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_replaces_that_of_the_same_run_and_keeps_the_others(tmp_path):
    path = tmp_path / "results.csv"
    for run, loss in (("a", 0.5), ("b", 0.25), ("a", 0.125)):
        upsert_result(path, {"run": run, "loss": loss})
    assert rows(path) == [{"run": "b", "loss": "0.25"}, {"run": "a", "loss": "0.125"}]


def test_rows_of_other_runs_stay_as_they_are_to_the_last_digit(tmp_path):
    path = tmp_path / "results.csv"
    odd = {"run": "a", "loss": 0.1 + 0.2, "seed": 7, "name": 'x, "y"', "empty": None, "nan": "NA"}
    upsert_result(path, odd)
    before = rows(path)[0]
    assert float(before["loss"]) == 0.1 + 0.2
    for number in range(3):
        upsert_result(path, {"run": f"b{number}", "loss": 1 / 3, "more": 1})
    after = rows(path)
    assert after[0] == before | {"more": ""}
    assert after[1]["loss"] == repr(1 / 3)
    assert after[1]["seed"] == ""


@pytest.mark.parametrize("name", ["007", "1e5", "nan", "True"])
def test_a_run_may_be_called_like_a_number(tmp_path, name):
    path = tmp_path / "results.csv"
    for loss in (1, 2):
        upsert_result(path, {"run": name, "loss": loss})
    assert rows(path) == [{"run": name, "loss": "2"}]


def write_many(who, path, count):
    for number in range(count):
        upsert_result(path, {"run": f"{who}-{number}", "loss": number})


@pytest.mark.dist
def test_processes_that_write_at_once_lose_nothing(tmp_path):
    path, count = tmp_path / "results.csv", 40
    context = mp.get_context("fork")  # this module is light, and a spawned one is slow to import
    writers = [context.Process(target=write_many, args=(who, path, count)) for who in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    wanted = {f"{who}-{number}" for who in "ab" for number in range(count)}
    assert {row["run"] for row in rows(path)} == wanted
    assert len(rows(path)) == 2 * count


def test_a_row_that_cannot_be_written_leaves_the_table(tmp_path):
    path = tmp_path / "results.csv"
    upsert_result(path, {"run": "a", "loss": 1})
    before = path.read_bytes()

    class Unprintable:
        def __str__(self):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        upsert_result(path, {"run": "b", "loss": Unprintable()})
    assert path.read_bytes() == before
