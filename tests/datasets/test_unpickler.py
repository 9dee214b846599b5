import os
import pickle

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.unpickler import read_pickle


class Hostile:
    def __reduce__(self):
        return os.system, ("touch /tmp/should_never_exist",)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_and_arrays_come_back(tmp_path, protocol):
    value = {
        "a": [(1.0, 2, None), {"b": True}],
        "array": np.arange(6, dtype=np.float32).reshape(2, 3),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "scalar": np.float64(0.5),
    }
    path = tmp_path / "plain.pkl"
    path.write_bytes(pickle.dumps(value, protocol))
    back = read_pickle(path)
    assert back["a"] == value["a"]
    assert back["scalar"] == 0.5
    np.testing.assert_array_equal(back["array"], value["array"])
    assert back["empty"].shape == (0, 4)


def test_arrays_pickled_by_numpy_1_come_back(tmp_path):
    path = tmp_path / "old.pkl"
    data = pickle.dumps({"a": np.ones(3)}, 2).replace(b"numpy._core", b"numpy.core")
    path.write_bytes(data)
    np.testing.assert_array_equal(read_pickle(path)["a"], np.ones(3))


def test_a_pickle_that_would_run_a_command_is_refused_by_name(tmp_path):
    path = tmp_path / "hostile.pkl"
    path.write_bytes(pickle.dumps({"001YG.mp4/000089.png": Hostile()}))
    with pytest.raises(InputError, match=r"hostile\.pkl asks for '(posix|os|nt)\.system'"):
        read_pickle(path)


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps([1, 2, 3])[:-4]])
def test_a_broken_pickle_is_named_with_its_size(tmp_path, content):
    path = tmp_path / "broken.pkl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"broken\.pkl \({len(content)} bytes\)"):
        read_pickle(path)


def test_a_missing_pickle_is_named(tmp_path):
    with pytest.raises(InputError, match="is missing; put Action Genome"):
        read_pickle(tmp_path / "none.pkl")
