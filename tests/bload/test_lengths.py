"""Lengths from files: every good form, and a sentence for every bad one."""

import json
import warnings

import numpy as np
import pytest

from bload import InputError, action_genome_lengths, read_lengths

MARK = "\ufeff"  # what spreadsheets put in front of UTF-8


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "3\n5\n8\n"),
        ("a.csv", "frames seen\n3\n5\n8\n"),
        ("a.csv", "length\r\n3\r\n5\r\n8\r\n"),
        ("a.csv", "name,length,fps\na,3,30\nb,5,30\nc,8,30\n"),
        ("a.csv", "Name , Num_Frames \na,3\n\nb, 5\nc,8.0\n"),
        ("a.csv", '"name","n_frames"\n"a, with comma",3\nb,5\nc,8\n'),
        ("a.CSV", "frames,name\n3,a\n5\n8,c\n"),  # a row may end after its length
        ("a.csv", MARK + "3\n5\n8\n"),
        ("a.csv", MARK + "length,name\n3,a\n5,b\n8,c\n"),
        ("a.json", "[3, 5, 8]"),
        ("a.json", '{"a": 3, "b": 5, "c": 8.0}'),
        ("a.json", MARK + "[3, 5, 8]"),
        ("a.txt", "# frames\n3\n5 # the second\n\n  8\n"),
        ("a.txt", MARK + "3\n5\n8"),
        ("lengths", "3\n5\n8\n"),
    ],
)
def test_every_good_form_is_read(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    lengths = read_lengths(tmp_path / name)
    assert lengths.tolist() == [3, 5, 8]
    assert lengths.dtype == np.int64


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8", "float32"])
def test_numpy_files_are_read(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.array([3, 5, 8], dtype))
    assert read_lengths(str(tmp_path / "a.npy")).tolist() == [3, 5, 8]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "", "at least one sequence"),
        ("a.csv", "length\n", "at least one sequence"),
        ("a.csv", "name,length\na,3\nb\n", "row 'b' without a cell for 'length'"),
        ("a.csv", "name,length\na,3\nb,\n", "could not convert"),
        ("a.csv", "name,length\na,3\nb,many\n", "'many'"),
        ("a.csv", "name,size\na,3\n", "columns name, size; name the one with the lengths 'length'"),
        ("a.csv", "3,4\n5,6\n", "name the one with the lengths 'length'"),
        ("a.csv", "length\n3\n0\n", "sequence 1 has length 0"),
        ("a.csv", "length\n-3\n", "sequence 0 has length -3"),
        ("a.csv", "length\n3\n2.5\n", "sequence 1 has length 2.5"),
        ("a.csv", "length\n3\nnan\n", "not a number"),
        ("a.csv", "length\ninf\n", "not a number"),
        ("a.csv", "length\n1e30\n", "sequence 0 has length 1e"),
        ("a.csv", "length,x\n3," + "y" * 200_000, "field larger"),
        ("a.csv", b"length\n\xff\xfe\n", "cannot read lengths"),
        ("a.json", "", "cannot read lengths"),
        ("a.json", "[3, 4", "cannot read lengths"),
        ("a.json", "[]", "at least one sequence"),
        ("a.json", "{}", "at least one sequence"),
        ("a.json", "7", "give a list"),
        ("a.json", "null", "give a list"),
        ("a.json", '[3, "x"]', "not a number"),
        ("a.json", "[3, null]", "not a number"),
        ("a.json", "[3, NaN]", "not a number"),
        ("a.json", '{"a": {"frames": 3}}', "not a number"),
        ("a.json", '{"a": 3, "b": 0}', "sequence b has length 0"),
        ("a.json", '{"a": 3, "001YG": 4.5}', "sequence 001YG has length 4.5"),
        ("a.json", "[[3], [4, 5]]", "cannot read lengths"),
        ("a.json", "[[3, 4], [5, 6]]", "shape \\(2, 2\\)"),
        ("a.json", "[" * 100_000, "cannot read lengths"),
        ("a.txt", "", "at least one sequence"),
        ("a.txt", "# nothing\n", "at least one sequence"),
        ("a.txt", "3 4\n", "'3 4'"),
        ("a.txt", "3\nfour\n", "'four'"),
        ("a.txt", "3\n0\n", "sequence 1 has length 0"),
        ("a.npy", b"", "cannot read lengths"),
        ("a.npy", b"hello", "cannot read lengths"),
        ("a.npy", b"PK\x03\x04broken", "cannot read lengths"),
    ],
)
def test_every_bad_form_is_told_in_one_sentence(tmp_path, name, content, says):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refusal = refused(path)
    assert says.replace("\\", "") in refusal


@pytest.mark.parametrize(
    "array",
    [np.array([{1: 2}], object), np.array([[3, 4]]), np.array(["3"]), np.array([1j]), np.array(4)],
)
def test_bad_numpy_files_are_told_in_one_sentence(tmp_path, array):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    refused(tmp_path / "a.npy")


def test_a_missing_file_is_told_with_the_way_out(tmp_path):
    assert "give a csv, json, npy or txt file" in refused(tmp_path / "none.csv")
    assert "give a csv, json, npy or txt file" in refused(tmp_path)


def refused(path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as refusal:
            read_lengths(path)
    text = str(refusal.value)
    assert str(path) in text
    assert "\n" not in text
    assert any(way in text for way in ("give ", "mend ", "name the one"))
    return text


def test_a_pickle_is_never_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    np.save(tmp_path / "a.npy", np.array([Trap()], object), allow_pickle=True)
    refused(tmp_path / "a.npy")
    assert not (tmp_path / "sprung").exists()


def test_a_split_that_is_none_is_refused():
    with pytest.raises(InputError, match="split is 'val'; Action Genome has train and test"):
        action_genome_lengths("val")


def test_written_lengths_are_read_back(tmp_path):
    lengths = action_genome_lengths("test")
    (tmp_path / "a.json").write_text(json.dumps(lengths.tolist()))
    np.testing.assert_array_equal(read_lengths(tmp_path / "a.json"), lengths)
