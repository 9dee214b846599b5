import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations import unpickler
from datasets.annotations.memory_limit import memory_limited
from datasets.annotations.unpickler import read_pickle
from tests.datasets.hostile_pickles import DTYPE, ENCODE, F4, HARMLESS, HOSTILE, RECONSTRUCT, array

REPOSITORY = Path(__file__).parents[2]
CAP = 3 * 2**30  # bytes of address space: a file that would take more fails its test, no more


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What came of each file, and the peak memory so far in MiB, from a process of its own."""
    folder = tmp_path_factory.mktemp("hostile")
    files = {**HOSTILE, **HARMLESS}
    for number, content in enumerate(files.values()):
        (folder / f"{number:03d}").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "tests.datasets.hostile_pickles", str(folder), str(CAP)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(files), f"died at {list(files)[len(lines)]}: {done.stderr[-500:]}"
    return {name: (text, peak) for name, (_, text, peak) in zip(files, lines, strict=True)}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence_with_the_way_out(told, name):
    text, peak = told[name]
    assert "read:" not in text
    assert "\n" not in text
    assert text.endswith(("download or make it again", "download it again from Action Genome"))
    assert peak < 900  # MiB of the process, packages included


@pytest.mark.parametrize("name", HARMLESS)
def test_an_odd_file_is_read_or_refused_and_does_no_harm(told, name):
    text, peak = told[name]
    assert "not a dictionary of frames" in text
    assert peak < 900


def test_a_hostile_file_leaves_the_constructors_as_they_were(tmp_path):
    good = tmp_path / "good.pkl"
    good.write_bytes(pickle.dumps({"a": np.ones(3), "b": b"bytes"}, 2))
    for content in HOSTILE.values():
        if len(content) < 1000:
            bad = tmp_path / "bad.pkl"
            bad.write_bytes(content)
            with pytest.raises(InputError):
                read_pickle(bad)
    np.testing.assert_array_equal(read_pickle(good)["a"], np.ones(3))
    assert read_pickle(good)["b"] == b"bytes"


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([True, False]),
        np.array(["sofa/couch", "door"]),
        np.zeros((0, 17, 3), dtype=np.float32),
        np.array(7, dtype=np.int64),
    ],
)
def test_arrays_of_plain_values_come_back_as_they_were(tmp_path, protocol, value):
    path = tmp_path / "array.pkl"
    path.write_bytes(pickle.dumps(value, protocol))
    back = read_pickle(path)
    assert back.dtype.newbyteorder("=") == value.dtype.newbyteorder("=")
    assert back.shape == value.shape
    np.testing.assert_array_equal(back, value)
    back.reshape(-1)[:1] = 0  # an array like any other


@pytest.mark.parametrize("value", [np.bool_(True), np.str_("train"), np.float32(0.5), np.int64(3)])
def test_numpy_scalars_come_back(tmp_path, value):
    path = tmp_path / "scalar.pkl"
    path.write_bytes(pickle.dumps(value))
    back = read_pickle(path)
    assert back == value
    assert type(back) is type(value)


def test_arrays_of_objects_are_refused(tmp_path):
    path = tmp_path / "objects.pkl"
    path.write_bytes(pickle.dumps(np.array([1, "a"], dtype=object)))
    with pytest.raises(InputError, match="dtype 'O8'"):
        read_pickle(path)


def test_the_memory_limit_is_lifted_again_whatever_happens(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    path = tmp_path / "memo.pkl"
    path.write_bytes(HOSTILE["memo of 2**31 places"])
    with pytest.raises(InputError, match="far more memory"):
        read_pickle(path)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to tell memory")
def test_more_than_the_limit_is_a_memory_error_and_less_is_not():
    with memory_limited(200 * 2**20):
        bytearray(20 * 2**20)
        with pytest.raises(MemoryError):
            bytearray(400 * 2**20)
    bytearray(400 * 2**20)


def test_two_threads_that_read_leave_no_limit_behind(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    path = tmp_path / "plain.pkl"
    path.write_bytes(pickle.dumps({str(n): [n] for n in range(20_000)}))
    threads = [threading.Thread(target=read_pickle, args=(path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_no_constructor_can_be_given_attributes():
    for made in unpickler._ALLOWED.values():
        with pytest.raises(AttributeError):
            made.anything = 1


def test_the_helper_opcodes_make_an_honest_array(tmp_path):
    path = tmp_path / "honest.pkl"
    path.write_bytes(array(b"(K\x01t", F4, b"C\x04\0\0\x80\x3f"))
    assert read_pickle(path).tolist() == [1.0]


@pytest.mark.parametrize(
    "content",
    {
        "dtype alone": DTYPE + b".",
        "in a list": b"](" + DTYPE + b"e.",
        "in a dictionary": b"}U\x01a" + DTYPE + b"s.",
        "in a tuple": b"(" + DTYPE + b"t.",
        "deep": b"}U\x01a](K\x01](" + DTYPE + b"t" + b"a" + b"es.",
        "a dtype made": b"](" + F4 + b"e.",
        "a constructor": RECONSTRUCT + b".",
        "as a key": b"}" + DTYPE + b"K\x01s.",
        "in a key": b"}" + DTYPE + b"\x85K\x01s.",
        "in a set": b"\x80\x04\x8f(" + ENCODE + b"\x90.",
        "in a frozen set": b"\x80\x04(" + DTYPE + b"\x91.",
        "an array in a tuple": array(b"(K\x01t")[:-1] + b"\x85.",
    }.items(),
    ids=lambda item: item[0],
)
def test_what_is_no_value_is_refused_wherever_it_stands(tmp_path, content):
    path = tmp_path / "odd.pkl"
    path.write_bytes(content[1])
    with pytest.raises(InputError, match=r"no value|an array in a tuple|unhashable"):
        read_pickle(path)


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_are_numpys_own_in_lists_dictionaries_and_alone(tmp_path, protocol):
    shared = np.arange(3)
    value = {"a": [shared, {"b": (1, [shared])}], "c": np.float32(1), 2: np.ones((2, 2))}
    path = tmp_path / "arrays.pkl"
    path.write_bytes(pickle.dumps(value, protocol))
    back = read_pickle(path)
    for array_there in (back["a"][0], back["a"][1]["b"][1][0], back[2]):
        assert type(array_there) is np.ndarray
        assert type(pickle.loads(pickle.dumps(array_there))) is np.ndarray
    path.write_bytes(pickle.dumps(shared, protocol))
    assert type(read_pickle(path)) is np.ndarray


def test_values_that_hold_themselves_come_back(tmp_path):
    value = {"array": np.ones(2)}
    value["itself"] = [value, (value,)]
    path = tmp_path / "cycle.pkl"
    path.write_bytes(pickle.dumps(value))
    back = read_pickle(path)
    assert back["itself"][0] is back
    assert back["itself"][1][0] is back
    assert type(back["array"]) is np.ndarray
