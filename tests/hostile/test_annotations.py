"""Annotation files: videos as annotated, or one sentence; no pickle runs code or ends us."""

import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE, read_annotations
from datasets.annotations.unpickler import read_pickle
from datasets.annotations.vocabulary import OBJECTS
from tests.datasets.annotations.hostile_pickles import HOSTILE
from tests.datasets.annotations.making import frames, persons
from tests.hostile.conftest import hostile
from tests.hostile.damage import TEXTS, VALUES, damaged

DICT = b"\x80\x02}"
HARMFUL = {
    "key of tuples a million deep": DICT + b")" + b"\x85" * 10**6 + b"Ns.",
    "value of tuples a million deep": DICT + b"K\x01)" + b"\x85" * 10**6 + b"s.",
    "key of a tuple doubled 64 times": DICT + b")" + b"2\x86" * 64 + b"Ns.",
    "memo of 2**31 places": b"Nr\xff\xff\xff\x7f.",
    "text of a terabyte": b"\x8d" + (10**12).to_bytes(8, "little") + b"a.",
    "lists a million deep": b"]" * 10**6 + b"a" * (10**6 - 1) + b".",
    "marks without end": b"(" * 10**6,
    "command": b"cos\nsystem\n(U\x0etouch /tmp/harmtR.",
    "eval": b"c__builtin__\neval\n(U\x1a__import__('os').abort()  tR.",
    "file": b"cbuiltins\nopen\n(U\x09/tmp/harmU\x01wtR.",
}
ENTRIES = frames("V1", range(1, 5))
PEOPLE = persons(ENTRIES)
GOOD = [pickle.dumps(ENTRIES, protocol) for protocol in (0, 2, 4)]


@hostile(0.002, few=15)
@given(
    content=st.one_of(
        *(damaged(good) for good in GOOD),
        *(damaged(content) for content in HOSTILE.values() if len(content) < 10**4),
        st.lists(st.sampled_from([bytes([n]) for n in range(256)]) | st.just(b"K\x01")).map(
            b"".join
        ),
    )
)
def test_a_pickle_is_plain_values_or_refused(refused_or, tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "annotations.pkl"
    path.write_bytes(content)
    refused_or(read_pickle, path)


@pytest.mark.parametrize("name", [*HARMFUL])
def test_no_pickle_ends_the_process(refused_or, tmp_path, name):
    (tmp_path / "annotations.pkl").write_bytes(HARMFUL[name])
    value = refused_or(read_pickle, tmp_path / "annotations.pkl")
    assert (value is None) == (name != "lists a million deep")


def test_an_array_is_as_large_as_its_bytes(refused_or, tmp_path):
    for content in (
        b"cnumpy\nndarray\n(\x8a\x05\x00\xe4\x0b\x54\x02tR.",
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(\x8a\x05\x00\xe4\x0b\x54\x02tU\x01btR.",
    ):
        (tmp_path / "annotations.pkl").write_bytes(content)
        assert read_pickle(tmp_path / "annotations.pkl").size == 0


KEYS = ("bbox", "class", "metadata", "visible", "contacting_relationship", "bbox_size", "bbox_mode")
ODD = VALUES | st.sampled_from(
    [
        *(
            (1, 2, 3, 4),
            (float("nan"),) * 4,
            (1e30,) * 4,
            np.zeros((2, 4)),
            np.zeros(0),
            np.array("x"),
        ),
        *({"set": "train"}, {"set": ["train"]}, ["holding"], ["no"], OBJECTS[5], np.float32(3)),
        *((480, 270), (0, 0), (2**40, 2**40), ("480", "270"), (480.5, 270.5), {0: 1}, {"person"}),
    ]
)
NAMES = st.sampled_from(["V1.mp4/000001.png", "../../x/000001.png", "V1.mp4/1.png"]) | TEXTS


@st.composite
def changed(draw: st.DrawFn, whole: dict) -> dict:
    """Annotations of which some have odd names or odd values."""
    made = dict(whole)
    for name in draw(st.lists(st.sampled_from([*whole]), max_size=2)):
        value = made[name]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            made[name] = [value[0] | draw(st.dictionaries(st.sampled_from(KEYS), ODD, max_size=2))]
        elif isinstance(value, dict):
            made[name] = value | draw(st.dictionaries(st.sampled_from(KEYS), ODD, max_size=2))
    return made | draw(st.dictionaries(NAMES, ODD, max_size=1))


ELSEWHERE = [
    {name.replace("V1.mp4", "../x"): one for name, one in whole.items()}
    for whole in (ENTRIES, PEOPLE)
]


@hostile(0.001, few=10)
@given(entries=changed(ENTRIES), people=changed(PEOPLE), split=st.sampled_from(["train", "test"]))
@example(entries=ELSEWHERE[0], people=ELSEWHERE[1], split="train")
@pytest.mark.filterwarnings("ignore")
def test_annotations_are_videos_or_refused(refused_or, tmp_path_factory, entries, people, split):
    root = tmp_path_factory.getbasetemp() / "root"
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    try:
        files = {OBJECTS_FILE: pickle.dumps(entries), PERSONS_FILE: pickle.dumps(people)}
    except UnicodeEncodeError:
        return  # a text that no pickle holds
    for name, content in files.items():
        (root / "annotations" / name).write_bytes(content)
    found = refused_or(read_annotations, root, split, small_boxes="computed")
    if found is not None:
        boxes = np.concatenate([f.object_boxes_M4 for v in found.videos for f in v.frames])
        assert np.isfinite(boxes).all()
        assert not any(".." in f.name for v in found.videos for f in v.frames)
