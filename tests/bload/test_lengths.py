"""Lengths from files: every good form, and a sentence for every bad one."""

import warnings

import numpy as np
import pytest

from bload import InputError, read_lengths
from bload import lengths as lengths_module
from bload.lengths import check_lengths, read_file

MARK = "\ufeff"  # spreadsheets put it in front of UTF-8

GOOD = [
    ("a.csv", "3\n5\n8\n"),
    ("a.csv", MARK + "3\n5\n8\n"),
    ("a.csv", "frames seen\n3\n5\n8\n"),
    ("a.csv", "name,length,fps\na,3,30\nb,5,30\nc,8,30\n"),
    ("a.csv", "Name , Num_Frames \na,3\n\nb, 5\nc,8.0\n"),
    ("a.csv", MARK + '"name","n_frames"\n"a, with comma",3\nb,5\nc,8\n'),
    ("a.CSV", "frames,name\n3,a\n5\n8,c\n"),  # a row may end after its length
    ("a.json", "[3, 5, 8]"),
    ("a.json", MARK + '{"a": 3, "b": 5, "c": 8.0}'),
    ("a.txt", "# frames\n3\n5 # the second\n\n  8\n"),
    ("lengths", MARK + "3\n5\n8"),
]
BAD = [
    ("a.csv", "at least one sequence", "", "length\n"),
    ("a.csv", "line 3 has '' where a length belongs", "name,length\na,3\nb\n"),
    ("a.csv", "line 3 has ''", "name,length\na,3\nb,\n"),
    ("a.csv", "line 4 has 'many'", "name,length\na,3\n\nb,many\n"),
    ("a.csv", "'length'", "name,size\na,3\n", "3,4\n5,6\n"),
    ("a.csv", "sequence on line 4 has length 0", "length\n3\n\n0\n"),
    ("a.csv", "line 2 has length -3;", "length\n-3\n"),
    ("a.csv", "line 3 has length 2.5", "length\n3\n2.5\n"),
    ("a.csv", "line 2 has length 1e", "length\n1e30\n"),
    ("a.csv", "line 1 has '1O'", "1O\n3\n"),
    ("a.csv", "line 1 has length nan", "nan\n3\n"),
    ("a.csv", "line 3 has length ", "length\n3\nnan\n", "length\n1\n-inf\n"),
    ("a.csv", "cannot read lengths", "length,x\n3," + "y" * 200_000, b"length\n\xff\xfe\n"),
    ("a.json", "cannot read lengths", "", "[3, 4", "[" * 100_000),
    ("a.json", "at least one sequence", "[]", "{}"),
    ("a.json", "a list", "7", "null"),
    ("a.json", "no list of numbers", "[[3], [4, 5]]"),
    ("a.json", "not a number", '[3, "x"]', "[3, null]", '{"a": {"frames": 3}}'),
    ("a.json", "sequence 1 has length nan", "[3, NaN]"),
    ("a.json", "sequence 001YG has length 4.5", '{"a": 3, "001YG": 4.5}'),
    ("a.txt", "at least one sequence", "", "# nothing\n"),
    ("a.txt", "line 2 has '3 4'", "# frames\n3 4\n"),
    ("a.txt", "line 2 has length 0", "3\n0\n"),
    ("a.npy", "cannot read lengths", b"", b"hello", b"PK\x03\x04broken"),
]


def refusal(path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as error:
            read_lengths(path)
    text = str(error.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def test_every_good_form_is_read(tmp_path):
    for name, content in GOOD:
        (tmp_path / name).write_text(content, encoding="utf-8", newline="")
        lengths = read_lengths(tmp_path / name)
        assert (lengths.tolist(), lengths.dtype) == ([3, 5, 8], np.int64), (name, content)
    for dtype in ("int64", "int16", "uint8", "float32"):
        np.save(tmp_path / "a.npy", np.array([3, 5, 8], dtype))
        assert read_lengths(str(tmp_path / "a.npy")).tolist() == [3, 5, 8], dtype


def test_the_column_of_the_lengths_is_told(tmp_path):
    found = [("Name, Num_Frames \na,3\n", "Num_Frames"), ("frames seen\n3\n", "frames seen")]
    for text, column in [*found, ("frames,length\n1,3\n", "length"), ("3\n", None)]:
        (tmp_path / "a.csv").write_text(text)
        assert read_file(tmp_path / "a.csv").column == column
        assert read_lengths(tmp_path / "a.csv").tolist() == [3]


def test_every_bad_form_is_refused_in_one_sentence(tmp_path):
    for name, words, *contents in BAD:
        for content in contents:
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name).write_bytes(data)
            assert words in refusal(tmp_path / name), (name, content[:40])
    for value in ([[3, 4]], ["3"], [1j], 4):
        np.save(tmp_path / "a.npy", np.array(value))
        refusal(tmp_path / "a.npy")
    for missing in (tmp_path / "none.csv", tmp_path):
        assert "csv, tsv, parquet, json, npy or txt" in refusal(missing)


def test_a_pickle_is_never_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    np.save(tmp_path / "a.npy", np.array([Trap()], object), allow_pickle=True)
    refusal(tmp_path / "a.npy")
    assert not (tmp_path / "sprung").exists()


def test_a_bug_in_a_reader_is_not_blamed_on_the_file(tmp_path, monkeypatch):
    def fail(path):
        raise KeyError("a bug")

    monkeypatch.setattr(lengths_module, "_from_text", fail)
    (tmp_path / "a.txt").write_text("3")
    with pytest.raises(KeyError):
        read_lengths(tmp_path / "a.txt")


def test_masked_lengths_are_refused():
    with pytest.raises(InputError, match="not a number"):
        check_lengths(np.ma.array([3, 5], mask=[False, True]))
    assert check_lengths(np.ma.array([3, 2047])).tolist() == [3, 2047]
