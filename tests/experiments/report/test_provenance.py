"""The report names every command with what its runs were made on."""

import json

import pytest

from experiments.report.collect import collect
from experiments.report.document import Table, Text
from experiments.report.provenance import origin_section
from tests.experiments.report.made_runs import make_record, make_run, sweep

OTHER = {"cpu": "Other CPU", "cores": 8, "gpu": None, "memory_gib": 64.0, "system": "Linux"}


@pytest.fixture
def runs(tmp_path):
    """The names of three finished runs of epoch_time, and what writes the sweeps that made them."""

    def write(*sweeps):
        content = {"name": "epoch_time", "jobs": [], "sweeps": sweeps}
        (tmp_path / "epoch_time" / "experiment.json").write_text(json.dumps(content))
        return collect(tmp_path)

    made = [make_run(tmp_path / "epoch_time", loader) for loader in ("naive", "mix", "bload")]
    return *(run.name for run in made), write


def told(collection) -> str:
    blocks = origin_section(collection).blocks
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def table(collection, title) -> list[dict[str, str]]:
    for block in origin_section(collection).blocks:
        if isinstance(block, Table) and block.title == title:
            rows = [[cell.text for cell in row] for row in block.rows]
            return [dict(zip(block.columns, row, strict=True)) for row in rows]
    return []


def test_every_command_is_listed_with_when_and_where_it_ran(runs):
    naive, mix, bload, write = runs
    first = sweep("epoch_time", naive, mix)
    second = sweep("epoch_time", bload, started="2026-11-22T09:00:00+00:00", ended=None)
    second |= {"command": "python train.py -m experiment=epoch_time loader=bload", "git": "f" * 40}
    found = write(first, second)
    assert table(found, "Commands") == [
        {
            "experiment": "epoch_time",
            "command": "`python train.py -m experiment=epoch_time`",
            "began": "2026-11-21 09:00",
            "ended": "2026-11-21 10:30",
            "runs": "2",
            "threads": "1",
            "commit": "0123456789ab",
        },
        {
            "experiment": "epoch_time",
            "command": "`python train.py -m experiment=epoch_time loader=bload`",
            "began": "2026-11-22 09:00",
            "ended": "-",
            "runs": "1",
            "threads": "1",
            "commit": "ffffffffffff",
        },
    ]
    assert told(found).count("Made CPU, 2 cores") == 1
    assert told(found).count("python 3.11.2, torch 2.11.0") == 1
    assert "times of" not in told(found)


def test_machines_that_differ_stand_in_the_table_and_are_told(runs):
    naive, mix, bload, write = runs
    other = sweep("epoch_time", bload, machine=OTHER, threads=4)
    found = write(sweep("epoch_time", naive, mix), other | {"started": "2026-11-22"})
    machines = [row["machine"].split(",")[0] for row in table(found, "Commands")]
    assert machines == ["Made CPU", "Other CPU"]
    said = "times of epoch_time come from 2 machines and from runs with 1 and 4 threads."
    assert said in told(found)


def test_a_machine_of_runs_that_did_not_finish_is_not_told_of_the_times(runs):
    naive, mix, bload, write = runs
    other = sweep("epoch_time", "bload-gone", machine=OTHER, started="2026-11-22")
    assert "times of" not in told(write(sweep("epoch_time", naive, mix, bload), other))


def test_runs_that_no_command_made_are_counted(runs):
    naive, _, _, write = runs
    (row,) = table(write(sweep("epoch_time", naive)), "Runs by experiment")
    assert (row["finished"], row["by no command listed here"]) == ("3", "2")
    (row,) = table(write(sweep("epoch_time", runs=None)), "Runs by experiment")
    assert row["by no command listed here"] == "-"


def test_the_command_of_the_page_can_be_typed_for_a_folder_with_a_space(tmp_path):
    folder = tmp_path / "my runs"
    make_run(folder / "paper_table", "bload")
    make_record(folder / "paper_table")
    assert f"`python -m experiments.report '{folder}'`" in told(collect(folder))
