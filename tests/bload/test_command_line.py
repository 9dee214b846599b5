"""``python -m bload``: the table, and errors in one line."""

import json
import re

import pytest

from bload.__main__ import main


@pytest.fixture
def run(capsys):
    """Standard output of a command that succeeds."""
    return lambda *arguments: capsys.readouterr().out if main([*arguments]) == 0 else None


@pytest.fixture
def lengths(tmp_path) -> str:
    path = tmp_path / "lengths.csv"
    path.write_text("name,length\n" + "".join(f"v{i},{1 + i % 8}\n" for i in range(64)))
    return str(path)


def test_the_table_of_action_genome(run, monkeypatch):
    rows = {row["loader"]: row for row in json.loads(run("table", "--json"))["loaders"]}
    keys = ("t_max", "deleted", "lower_bound")
    assert {name: [row[key] for key in keys] for name, row in rows.items()} == {
        "naive": [94, 0, 1775],
        "sampling": [22, 92_271, 3387],
        "sampling clips=all": [22, 79_093, 3986],
        "mix": [22, 40_289, 5935],
        **{key: [94, 0, 1775] for key in ("single", "bucket", "ragged")},
        **{key: [94, 0, 1775] for key in ("bload draw=length", "bload", "bload_exact")},
    }
    paddings = {name: row["padding"] for name, row in rows.items()}
    expected = {"naive": 534_831, "sampling": 0, "sampling clips=all": 0, "mix": 37_712}
    assert paddings.items() > expected.items()
    assert paddings["bload_exact"] == rows["bload"]["lower_bound_padding"] == 65
    monkeypatch.setenv("COLUMNS", "80")
    assert all(len(line) <= 80 and "fewest" not in line for line in run("table").splitlines())
    monkeypatch.delenv("COLUMNS")
    lines = run("table", "--epochs", "2").splitlines()
    assert "534,831" in lines[5]
    assert len({len(line) for line in lines[3:15]}) == 1, "columns are aligned"


def test_several_sizes_are_split_or_truncated_as_asked(run, lengths):
    arguments = "table", lengths, "--t-max", "4,8,16,32", "--long", "split"
    rows = json.loads(run(*arguments, "--json"))["loaders"]
    whole = [(row["t_max"], row["blocks"]) for row in rows if row["loader"] == "bload_exact"]
    assert whole == [(4, 72), (8, 36), (16, 18), (32, 9)]
    padded = [row["t_max"] for row in rows if row["loader"] == "naive"]
    assert padded == [4, 8, 8, 8], "not further than to the longest"
    text = run(*arguments)
    assert text.split("\n")[1] == "64 sequences, 288 frames, 1 to 8, mean 4.500"
    rows = json.loads(run("table", lengths, "--t-max", "5", "--long", "truncate", "--json"))
    assert {row["deleted"] for row in rows["loaders"] if row["t_max"] == 5} == {8 * 6}


def test_a_file_of_lengths_adds_predicted_work(run, lengths):
    found = json.loads(run("table", lengths, "--ranks", "4", "--batch-slots", "16", "--json"))
    rows = {row["loader"]: row for row in found["loaders"]}
    # 2 blocks of 8 for each of 4 ranks: 64 sequences alone in 8 steps; 36 full blocks in 5
    work = {name: (rows[name]["steps"], rows[name]["slots"]) for name in ("naive", "bload_exact")}
    assert work == {"naive": (8, 512), "bload_exact": (5, 320)}
    assert rows["bload_exact"]["naive_ratio"] == 512 / 320
    assert "taking 4 (or one block's) slots per step" in run("table", lengths, "--batch-slots", "4")


@pytest.mark.parametrize(
    ("t_max", "words"),
    [("7", "on line 9 has 8 frames .* to 8, .* set long=split, carry or"), ("0", "t_max is 0")],
)
def test_an_error_is_one_line_and_status_2(capsys, lengths, t_max, words):
    assert main(["table", lengths, "--t-max", t_max]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert re.fullmatch(f"bload: error: .*{words}.*\n", err), err
