"""Lengths from files: every good form, and a sentence for every bad one."""

import numpy as np
import pytest

from bload import InputError
from bload.lengths import read_lengths

MARK = "\ufeff"  # spreadsheets put it in front of UTF-8
GOOD = [
    ("a.csv", "3\n5\n8\n"),
    ("a.csv", "frames seen\n3\n5\n8\n"),
    ("a.csv", "Name , Length \na,3\n\nb, 5\nc,8.0\n"),
    ("a.csv", MARK + '"name";"length"\n"a; with semicolon";3\nb;5\nc;8\n'),
    ("a.CSV", "length,name\n3,a\n5\n8,c\n"),  # a row may end after its length
    ("a.tsv", "name\tlength\na\t3\nb\t5\nc\t8\n"),
    ("a.txt", "# frames\n3\n5 # the second\n\n  8\n"),
    ("lengths", MARK + "3\n5\n8"),
]
BAD = [
    ("a.csv", "line 3 has ['b', '']", "name,length\na,3\nb,\n"),
    ("a.csv", "'length'", "name,size\na,3\n", "3,4\n5,6\n"),
    ("a.csv", "sequence on line 4 has length 0", "length\n3\n\n0\n"),
    ("a.csv", "line 3 has length 2.5", "length\n3\n2.5\n"),
    ("a.csv", "line 1 has length nan", "nan\n3\n"),
    ("a.csv", "cannot read lengths", "length,x\n3," + "y" * 200_000, b"length\n\xff\xfe\n"),
    ("a.csv", "the lengths are empty", "", "length\n"),
    ("a.npy", "cannot read lengths", b"", b"hello"),
]


def test_every_good_form_is_read(tmp_path):
    for name, content in GOOD:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8", newline="")
        lengths, _ = read_lengths(path)
        assert (lengths.tolist(), lengths.dtype) == ([3, 5, 8], np.int64), (path, content)
    np.save(tmp_path / "a.npy", np.array([3, 5, 8], np.float32))
    assert read_lengths(str(tmp_path / "a.npy"))[0].tolist() == [3, 5, 8]


def test_every_bad_form_is_refused_in_one_sentence(tmp_path):
    np.save(tmp_path / "object.npy", np.array([{}], object), allow_pickle=True)
    cases = [("object.npy", "allow_pickle", (tmp_path / "object.npy").read_bytes())]
    for name, words, *contents in [*BAD, *cases]:
        path = tmp_path / name
        for content in contents:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            with pytest.raises(InputError) as error:
                read_lengths(path)
            assert words in str(error.value), (name, content[:40])
            assert str(path) in str(error.value)
    with pytest.raises(InputError, match=r"none\.csv"):
        read_lengths(tmp_path / "none.csv")
