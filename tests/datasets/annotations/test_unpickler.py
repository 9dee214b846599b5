"""Annotations come back as they were; no pickle runs code or forges pointers."""

import os
import pickle
import sys

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.unpickler import read_pickle

DTYPE, NDARRAY = b"cnumpy\ndtype\n", b"cnumpy\nndarray\n"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
F4 = DTYPE + b"(U\x02f4I00\nI01\ntR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
OBJECT = DTYPE + b"(U\x01OI00\nI01\ntR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
BECOMES_OBJECT = DTYPE + b"(U\x02U2I00\nI01\ntR(K\x03U\x01|U\x01ONNK\x08K\x08K\x3ftb"


def array(shape: bytes, dtype: bytes = F4, data: bytes = b"C\x04\0\0\x80\x3f") -> bytes:
    """A pickle of an empty array that gets a state."""
    empty = RECONSTRUCT + b"(" + NDARRAY + b"(K\x00tU\x01btR"
    return empty + b"(K\x01" + shape + dtype + b"I00\n" + data + b"tb."


HOSTILE = {
    "global": b"cos\nsystem\n(U\x04truetR.",
    "global of protocol 4": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "newobj": b"\x80\x02csubprocess\nPopen\nU\x04true\x85\x81.",
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.",
    "array of objects from bytes": array(b"(K\x01t", OBJECT, b"C\x08AAAAAAAA"),
    "dtype of fields": DTYPE + b"(U\x05f4,O8tR.",
    "array of no dtype": array(b"(K\x01t", b"U\x02f4"),
    "cut off": pickle.dumps([1, 2, 3])[:-4],
}


@pytest.fixture
def read(tmp_path):
    """Reads a pickle from a file of its own."""

    def read_content(content: bytes):
        (tmp_path / "annotations.pkl").write_bytes(content)
        return read_pickle(tmp_path / "annotations.pkl")

    return read_content


def test_plain_values_arrays_and_scalars_come_back_as_they_were(read):
    plain = {"a": [(1.0, 2, None), {"b": True}], "b": b"bytes", "empty": b"", "text": "é"}
    values = (
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([True, False]),
        np.array(["sofa/couch", "door"]),
        np.zeros((0, 17, 3), dtype=np.float32),
        *(np.array(7), np.bool_(True), np.str_("train"), np.float32(0.5), np.int64(3)),
    )
    for protocol in range(6):
        assert read(pickle.dumps(plain, protocol)) == plain
        for value in values:
            back = read(pickle.dumps({"a": [value]}, protocol))["a"][0]
            assert isinstance(back, type(value))
            assert back.dtype.newbyteorder("=") == value.dtype.newbyteorder("=")
            assert (back.shape, back.tolist()) == (value.shape, value.tolist())
    assert read(array(b"(K\x01t")).tolist() == [1.0]  # as numpy 1 calls it


def test_no_pickle_runs_code_or_forges_pointers_and_its_file_is_named(read):
    events, is_listening = [], True
    sys.addaudithook(lambda event, _: events.append(event) if is_listening else None)
    read(array(b"(K\x01t"))
    del events[:]
    for name, content in HOSTILE.items():
        with pytest.raises(InputError, match=r"annotations\.pkl cannot be read"):
            read(content)
        assert not {"os.system", "subprocess.Popen", "exec"} & {*events}, name
    is_listening = False
    forged = read(array(b"(K\x01t", BECOMES_OBJECT, b"C\x08AAAAAAAA"))
    assert forged.dtype == np.dtype("U2"), "not what its state says"
    with pytest.raises(InputError, match=r"'(posix|os|nt)\.system'"):
        read(pickle.dumps(os.system))
