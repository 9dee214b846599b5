"""``python -m bload``: the table, the drawing, and errors in one line."""

import json
import re

import pytest

from bload.__main__ import main


@pytest.fixture
def run(capsys):
    """Standard output of a command that succeeds."""
    return lambda *arguments: capsys.readouterr().out if main([*arguments]) == 0 else None


@pytest.fixture
def table(run):
    """Loader -> row of the table."""
    return lambda *options: {
        row["loader"]: row for row in json.loads(run("table", "--json", *options))["loaders"]
    }


@pytest.fixture
def lengths(tmp_path) -> str:
    path = tmp_path / "lengths.csv"
    path.write_text("name,length\n" + "".join(f"v{i},{1 + i % 8}\n" for i in range(64)))
    return str(path)


def test_the_table_of_action_genome(run, table):
    rows = table()
    keys = ("t_max", "deleted", "lower_bound_blocks")
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
    assert {(row["sequences"], row["frames"]) for row in rows.values()} == {(7464, 166_785)}
    text = run("table")
    for figure in ("534,831", "92,271", "37,712", "40,289", "1,775"):
        assert figure in text
    assert len({len(line) for line in text.splitlines()[2:11]}) == 1, "columns are aligned"


def test_own_lengths_of_several_sizes_are_split_and_of_one_as_asked(run, table, lengths):
    arguments = "table", lengths, "--t-max", "4,8,16,32"
    rows = json.loads(run(*arguments, "--json"))["loaders"]
    whole = [(row["t_max"], row["blocks"]) for row in rows if row["loader"] == "bload_exact"]
    assert whole == [(4, 72), (8, 36), (16, 18), (32, 9)]
    assert {row["deleted"] for row in rows if row["loader"] == "naive"} == {0}
    text = run(*arguments)
    assert text.startswith(f"{lengths}, column length: 64 sequences, 288 frames, 1 to 8, mean 4.5")
    assert "--long split" in text
    arguments = lengths, "--t-max", "5"
    assert main(["table", *arguments]) == 2, "one size alone may be a mistake"
    for long, deleted, blocks in [("truncate", 8 * 6, 64), ("split", 0, 8 * 11)]:
        rows = table(*arguments, "--long", long)
        for loader in ("naive", "bload", "bload draw=length", "bload_exact"):
            assert rows[loader]["deleted"] == deleted, loader
        assert rows["naive"]["blocks"] == blocks


def test_a_file_of_lengths_adds_predicted_work_and_a_recommended_block_size(run, lengths):
    found = json.loads(run("table", lengths, "--ranks", "4", "--batch-slots", "16", "--json"))
    summary = {key: found[key] for key in ("sequences", "frames", "shortest", "longest")}
    assert list(summary.values()) == [64, 288, 1, 8]
    rows = {row["loader"]: row for row in found["loaders"]}
    # 2 blocks of 8 for each of 4 ranks: 64 sequences alone in 8 steps; 36 full blocks in 5
    work = {name: (rows[name]["steps"], rows[name]["slots"]) for name in ("naive", "bload_exact")}
    assert work == {"naive": (8, 512), "bload_exact": (5, 320)}
    assert rows["bload_exact"]["naive_ratio"] == 512 / 320
    assert rows["naive"]["utilisation"] == 288 / 512
    assert 288 <= rows["naive"]["ragged_ratio"] * 512 < 400
    assert found["recommended"]["t_max"] == 8, "16 would leave as many empty"
    assert found["recommended"]["empty"] == pytest.approx(1 - 288 / 320)
    assert found["recommended"]["fillers"] == pytest.approx(4 * 8 / 320), "4 blocks of 40"
    text = run("table", lengths)
    assert "recommended for bload_exact on 8 ranks: T_max " in text
    assert "56.2%" in text
    assert "recommended" not in run("table")
    assert "recommended" in run("table", "--ranks", "2")
    for options in ([lengths], ["--epochs", "2", "--randomness"]):
        lines = run("table", *options).splitlines()[1:]  # the first names the file
        assert max(map(len, lines)) <= 120
        titles = re.split(r"\s{2,}", lines[1])
        assert len(titles) == len(set(titles)) > 9


def test_lengths_are_read_from_the_files_that_people_have(run, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"name": list("abc"), "length": [3, 17, 8]})
    table.to_parquet(tmp_path / "a.parquet")
    table.to_csv(tmp_path / "a.csv.gz", index=False)
    table.to_csv(tmp_path / "a.csv", sep=";", index=False)
    for name in ("a.parquet", "a.csv.gz", "a.csv"):
        assert ", column length: 3 sequences, 28 frames" in run("table", str(tmp_path / name))


def test_a_picture_is_written_where_it_says(run, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    (path,) = re.findall(r"\S+\.png", run("draw", "--loaders", "naive"))
    assert (tmp_path / path).stat().st_size


def test_randomness_and_epochs(run, table, lengths):
    rows = table("--randomness", "--split", "test")
    assert rows["naive"]["repeat_share"] is None
    assert 0 < rows["bload_exact"]["repeat_share"] < 0.01
    assert 0 <= rows["bload_exact"]["partner_information"] < 0.02
    assert rows["bload"]["padding_min"] == rows["bload"]["padding_max"], "one of the two epochs"
    several = lengths, "--epochs", "9"
    one, again, other = (table(*several, "--seed", seed)["bload"] for seed in "001")
    assert one["padding_min"] < one["padding"] < one["padding_max"]
    assert one["padding"] == again["padding"] != other["padding"]
    text = run("table", "--randomness", *several)
    assert "nats" in text
    assert "9 epochs" in text


def test_errors_are_one_line_and_status_2(capsys, lengths):
    pytest.importorskip("matplotlib")
    for arguments, words in [
        (f"table {lengths} --t-max 7", ["on line 9 has 8 frames", "raise it to 8"]),
        ("table no/such.csv", ["no/such.csv", "csv, tsv, parquet, json, npy or txt"]),
        (
            "table --t-max 93",
            [
                "94 frames",
                "t_max is 93",
                'the longest, or set long="split", long="carry" or long="t',
            ],
        ),
        ("table --clip 95", ["--clip is 95", "94 frames", "lower it"]),
        ("draw --out blocks.jpg", ["blocks.jpg", ".png or .svg"]),
        ("draw --loaders bload,best", ["'best'", "bload_exact"]),
        ("draw --loaders naive --out /dev/null/blocks.png", ["/dev/null/blocks.png"]),
        ("draw --loaders naive --out nowhere/blocks.png", ["nowhere/blocks.png"]),
    ]:
        assert main(arguments.split()) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("bload: error: ")
        assert all(word in err for word in words), (arguments, err)
    assert main([]) == 2
    for arguments in ["tabel", "table --t-max 22,", "table a.csv --split test"]:
        with pytest.raises(SystemExit) as end:
            main(arguments.split())
        assert end.value.code == 2, arguments
        assert "error: " in capsys.readouterr().err
