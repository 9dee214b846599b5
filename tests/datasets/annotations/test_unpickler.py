import os
import pickle

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.unpickler import read_pickle
from tests.datasets.annotations.hostile_pickles import HOSTILE, array
from tests.hostile.watching import recorded

PROTOCOLS = range(6)
RUNNING = {"import", "compile", "exec", "os.exec", "os.system", "subprocess.Popen"}


@pytest.fixture
def read(tmp_path):
    """Reads a pickle from a file of its own."""
    path = tmp_path / "annotations.pkl"

    def read_content(content: bytes):
        path.write_bytes(content)
        return read_pickle(path)

    return read_content


class Command:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_plain_values_come_back(read):
    plain = {"a": [(1.0, 2, None), {"b": True}], "b": b"bytes", "empty": b"", "text": "é"}
    value = dict(plain)
    value["itself"] = [value]
    for protocol in PROTOCOLS:
        back = read(pickle.dumps(value, protocol))
        assert back.pop("itself")[0] is back
        assert back == plain


def test_arrays_and_scalars_come_back_as_they_were(read):
    values = (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([True, False]),
        np.array(["sofa/couch", "door"]),
        np.zeros((0, 17, 3), dtype=np.float32),
        np.array(7, dtype=np.int64),
        *(np.bool_(True), np.str_("train"), np.float32(0.5), np.int64(3), np.float64(0.1)),
    )
    for value in values:
        for protocol in PROTOCOLS:
            back = read(pickle.dumps({"a": [value]}, protocol))["a"][0]
            assert isinstance(back, type(value))
            assert back.dtype.newbyteorder("=") == value.dtype.newbyteorder("=")
            assert (back.shape, back.tolist()) == (value.shape, value.tolist())


def test_arrays_pickled_by_numpy_1_come_back(read):
    for protocol in range(4):
        data = pickle.dumps({"a": np.ones(3)}, protocol).replace(b"numpy._core", b"numpy.core")
        assert read(data)["a"].tolist() == [1, 1, 1]
    assert read(array(b"(K\x01t")).tolist() == [1.0]  # so that the hostile arrays are nearly honest


def test_no_hostile_pickle_runs_code_imports_a_module_or_changes_what_is_allowed(read, tmp_path):
    honest = pickle.dumps({"a": np.ones(3), "b": b"bytes", "c": np.float32(1)}, 2)
    marker = tmp_path / "marker"
    read(honest)
    pickles = HOSTILE | {"a command": pickle.dumps({"001YG.mp4/1.png": Command(f"touch {marker}")})}
    for name, content in pickles.items():
        with recorded() as events, pytest.raises(InputError) as caught:
            read(content)
        events = [e for e in events if not (e[0] == "import" and e[1][0].startswith("encodings."))]
        assert not {event for event, _ in events} & RUNNING, name
        assert "annotations.pkl" in str(caught.value), name
        assert "\n" not in str(caught.value), name
        assert len(str(caught.value)) < 700, name
    assert not marker.exists()
    back = read(honest)
    assert (back["a"].tolist(), back["b"], back["c"]) == ([1, 1, 1], b"bytes", 1)


def test_what_a_hostile_pickle_asks_for_is_named(read):
    with pytest.raises(InputError, match=r"annotations\.pkl .*'(posix|os|nt)\.system'"):
        read(pickle.dumps({"001YG.mp4/000089.png": Command("true")}))
    with pytest.raises(InputError, match="'O8'"):
        read(pickle.dumps(np.array([1, "a"], dtype=object)))


def test_a_broken_or_missing_pickle_is_named_with_its_size(read, tmp_path):
    for content in (b"", b"not a pickle", pickle.dumps([1, 2, 3])[:-4]):
        with pytest.raises(InputError, match=rf"annotations\.pkl \({len(content)} bytes\)"):
            read(content)
    with pytest.raises(InputError, match=r"none\.pkl is missing"):
        read_pickle(tmp_path / "none.pkl")
