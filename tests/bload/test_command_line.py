"""``python -m bload``: the table, the drawing, and errors in one line."""

import ast
import json
import subprocess
import sys

import pytest

from bload.__main__ import main

KEYS = {
    "loader",
    "t_max",
    "sequences",
    "frames",
    "blocks",
    "padding",
    "deleted",
    "lower_bound_blocks",
    "lower_bound_padding",
    "paper_padding",
    "paper_deleted",
    "seconds",
}


def table(capsys, *arguments) -> list[dict]:
    assert main(["table", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def by_loader(rows) -> dict[str, dict]:
    return {row["loader"]: row for row in rows}


def test_several_block_sizes_split_what_is_longer_and_say_so(capsys):
    assert main(["table", "--t-max", "80,94"]) == 0
    out = capsys.readouterr().out
    assert "longer sequences are split at T_max 80 (--long split)" in out
    assert main(["table", "--t-max", "80"]) == 2, "one size alone may be a mistake"


def test_the_table_stands_beside_the_paper(capsys):
    rows = table(capsys)
    assert all(row.keys() >= KEYS for row in rows)
    rows = by_loader(rows)
    for loader, padding, deleted in [
        ("naive", 534_831, 0),
        ("sampling", 0, 92_271),
        ("mix", 37_712, 40_289),
    ]:
        row = rows[loader]
        assert (row["padding"], row["deleted"]) == (padding, deleted)
        assert (row["paper_padding"], row["paper_deleted"]) == (padding, deleted)
    assert rows["bload_exact"]["blocks"] == rows["bload"]["lower_bound_blocks"] == 1775
    assert rows["bload_exact"]["padding"] == rows["bload"]["lower_bound_padding"] == 65
    assert (rows["naive"]["t_max"], rows["mix"]["t_max"]) == (94, 22)
    assert {(row["sequences"], row["frames"]) for row in rows.values()} == {(7464, 166_785)}


def test_the_papers_3695_carries_its_note(capsys):
    row = by_loader(table(capsys))["bload"]
    assert row["paper_padding"] == 3695
    assert "cannot be derived" in row["paper_note"]
    assert main(["table"]) == 0
    text = capsys.readouterr().out
    assert "3,695*" in text
    assert "* 3,695 cannot be derived" in text
    for figure in ("534,831", "92,271", "37,712", "40,289", "1,775"):
        assert figure in text


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], {"naive", "sampling", "mix", "bload"}),
        (["--clip", "94"], {"naive", "bload"}),
        (["--clip", "30"], {"naive", "bload"}),
        (["--t-max", "100"], {"sampling", "mix"}),
        (["--t-max", "22", "--long", "truncate"], {"sampling", "mix"}),
        (["--split", "test"], set()),
    ],
)
def test_the_paper_is_shown_only_where_its_sizes_hold(capsys, arguments, shown):
    rows = table(capsys, *arguments)
    assert {row["loader"] for row in rows if row["paper_padding"] is not None} == shown


def test_own_lengths_and_several_sizes(capsys, tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("name,length\n" + "".join(f"v{i},{1 + i % 8}\n" for i in range(64)))
    rows = table(capsys, "--lengths", str(path), "--t-max", "8,16,32")
    whole = [row for row in rows if row["loader"] == "bload_exact"]
    assert [(row["t_max"], row["blocks"]) for row in whole] == [(8, 36), (16, 18), (32, 9)]
    assert all(row["paper_padding"] is None and "paper_note" not in row for row in rows)
    assert main(["table", "--lengths", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{path}: 64 sequences, 288 frames, 1 to 8, mean 4.500")
    assert "paper: arXiv" not in text


def test_long_sequences_are_counted_as_told(capsys, tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("\n".join(str(n) for n in range(1, 21)))
    for long, deleted in [("truncate", sum(range(1, 9))), ("split", 0)]:
        rows = by_loader(table(capsys, "--lengths", str(path), "--t-max", "12", "--long", long))
        for loader in ("naive", "bload", "bload draw=length", "bload_exact"):
            assert rows[loader]["deleted"] == deleted
    assert rows["naive"]["blocks"] == 28


def test_randomness_and_epochs(capsys):
    rows = by_loader(table(capsys, "--randomness"))
    assert rows["naive"]["repeat_share"] is None
    assert 0 < rows["bload_exact"]["repeat_share"] < 0.001
    assert rows["bload_exact"]["partner_information"] < 0.02
    rows = by_loader(table(capsys, "--epochs", "3", "--split", "test"))
    assert rows["bload"]["padding_min"] <= rows["bload"]["padding"] <= rows["bload"]["padding_max"]
    assert rows["bload"]["epochs"] == 3
    assert main(["table", "--randomness", "--epochs", "2", "--split", "test"]) == 0
    text = capsys.readouterr().out
    assert "partner nats" in text
    assert "means over 2 epochs" in text


def test_the_same_seed_prints_the_same_table(capsys):
    def counts(*arguments):
        return [(row["blocks"], row["padding"]) for row in table(capsys, *arguments)]

    assert counts("--seed", "3") == counts("--seed", "3")
    assert counts("--seed", "3", "--epochs", "2") != counts("--seed", "4", "--epochs", "2")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["table", "--lengths", "no/such.csv"], "there is no lengths file no/such.csv"),
        (["table", "--t-max", "93"], "has 94 frames but t_max is 93; raise t_max to 94"),
        (["table", "--clip", "95"], "no sequence has t_max = 95 frames"),
        (["table", "--t-max", "9" * 20], "a block has at most"),
        (["draw", "--out", "blocks.jpg"], "cannot draw to blocks.jpg; name a .png or .svg file"),
        (["draw", "--out", "blocks"], "name a .png or .svg file"),
        (["draw", "--loaders", "bload,best"], "there is no loader 'best'"),
        (["draw", "--loaders", ""], "there is no loader ''"),
        (["draw", "--out", "/dev/null/blocks.png"], "cannot write /dev/null/blocks.png"),
    ],
)
def test_errors_are_one_line_and_status_2(capsys, arguments, says):
    if arguments[0] == "draw":
        pytest.importorskip("matplotlib")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bload: error: ")
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["tabel"],
        ["table", "--t-max", "0"],
        ["table", "--t-max", "22,"],
        ["table", "--t-max", "9.5"],
        ["table", "--epochs", "-1"],
        ["table", "--seed", "x"],
        ["table", "--long", "drop"],
        ["table", "--lengths", "a.csv", "--split", "test"],
    ],
)
def test_misspelt_arguments_are_status_2(capsys, arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG\r\n\x1a\n"), ("svg", b"<?xml")])
def test_a_drawing_is_written(capsys, tmp_path, suffix, magic):
    pytest.importorskip("matplotlib")
    path = tmp_path / "new" / f"blocks.{suffix}"
    loaders = "bload_exact" if suffix == "png" else "naive,sampling,mix,bload,bload_exact"
    assert main(["draw", "--out", str(path), "--rows", "4", "--loaders", loaders]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    content = path.read_bytes()
    assert content.startswith(magic)
    assert len(content) > 2000
    if suffix == "svg":
        assert b"</svg>" in content


OTHERS = {"hydra", "omegaconf", "wandb", "models", "datasets", "matplotlib", "PIL"}
OTHERS |= {"torchvision", "scipy", "pandas", "pyarrow"}


def test_the_library_needs_numpy_and_torch_alone():
    code = (
        "import sys, bload\n"
        "for name in bload.__all__: getattr(bload, name)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    packages = set(ast.literal_eval(done.stdout))
    assert packages >= {"numpy", "torch", "bload"}
    assert not packages & OTHERS


def test_the_module_runs_on_numpy_alone_and_reports_errors_by_status():
    code = (
        "import runpy, sys\n"
        "sys.argv = ['bload', 'table', '--t-max', '10']\n"
        "try:\n"
        "    runpy.run_module('bload', run_name='__main__')\n"
        "finally:\n"
        "    print(sorted({name.split('.')[0] for name in sys.modules}))\n"
        "    print([name for name in sys.modules if name.startswith('bload.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("bload: error: sequence ")
    assert done.stderr.count("\n") == 1
    packages, modules = map(set, map(ast.literal_eval, done.stdout.splitlines()))
    assert packages >= {"numpy", "bload"}
    assert not packages & {"torch", *OTHERS}
    assert not {name for name in modules if name.startswith("experiments")}
