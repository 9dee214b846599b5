"""Annotations with faults: which are found, and that their frames and files are named."""

import re

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.read import (
    OBJECTS_FILE,
    PERSONS_FILE,
    SMALL_BOXES_FILE,
    filter_annotations,
    read_annotations,
)
from tests.datasets.annotations.making import entry, frames, person, persons, write_root

BAD_ENTRIES = (
    ({"class": "unicorn"}, "'unicorn'"),
    ({"class": ["sofa/couch"]}, "object class"),
    ({"class": "__background__"}, "'__background__'"),
    ({"spatial_relationship": ["looking_at"]}, "'looking_at' .* spatial"),
    ({"spatial_relationship": "behind"}, "spatial_relationship is 'behind'"),
    ({"spatial_relationship": ["behind"] * 1000}, "spatial_relationship is .* 32"),
    ({"bbox": None}, "four numbers"),
    ({"bbox": (1.0, float("nan"), 2.0, 3.0)}, "four numbers"),
    ({"bbox": ("1", "2", "3", "4")}, "four numbers"),
    ({"bbox": (10**5000, 2, 3, 4)}, "four numbers"),
    ({"bbox": (-1e9, 2, 3, 4)}, "four numbers"),
    ({"visible": "yes"}, "visible is 'yes'"),
    ({"visible": np.array([True, False])}, "visible is array"),
    ({"metadata": {"set": 7}}, "set is 7"),
    ({"metadata": {}}, "lack 'set'"),
    ({"metadata": None}, "lists and dictionaries"),
)
BAD_PERSONS = (
    ({"bbox_size": (0, 270)}, "bbox_size is"),
    ({"bbox_size": (10**30, 270)}, "bbox_size is"),
    ({"bbox_size": (float("nan"), 270)}, "bbox_size is"),
    ({"bbox_size": (480, 270, 3)}, "bbox_size is"),
    ({"bbox_size": None}, "bbox_size is None"),
    ({"bbox": [[0, 0, 1]]}, "four numbers"),
    ({"bbox": [[0, 0, 1, float("inf")]]}, "four numbers"),
    ({"bbox": "0011"}, "bbox is '0011'"),
    ({"bbox_mode": "xywh"}, "'xywh'"),
)


def refusal(entries_of, person_of=None) -> str:
    with pytest.raises(InputError) as caught:
        filter_annotations(entries_of, person_of or persons(entries_of), "train")
    return str(caught.value)


def test_a_bad_value_is_refused_with_the_name_of_its_frame():
    for is_person, bad in ((False, BAD_ENTRIES), (True, BAD_PERSONS)):
        for changes, message in bad:
            entries_of = frames("A", [1, 2, 3])
            person_of = persons(entries_of)
            name = "A.mp4/000002.png"
            (person_of[name] if is_person else entries_of[name][0]).update(changes)
            said = refusal(entries_of, person_of)
            assert re.search(message, said), (changes, said)
            assert name in said
    assert "64" in refusal(frames("A", [1, 2, 3]) | {"A.mp4/000009.png": [entry()] * 1000})


def test_names_that_leave_the_root_or_are_of_another_form_are_refused():
    for name in (
        "../000001.png",
        "/etc/000001.png",
        "A/../000001.png",
        "..\\A/1.png",
        "A/x.png",
        7,
    ):
        assert "VIDEO/NUMBER" in refusal({name: [entry()]}, {"x": person()})
    assert "(1): A.mp4/000000.png" in refusal(frames("A", [0, 1, 2, 3]))  # they begin with 1


def test_a_frame_under_two_names_is_refused_with_both_but_not_one_of_another_video():
    for other in ("A.mp4/000002.jpg", "A.mp4/2.png", "A.mp4/0000002.png"):
        said = refusal(frames("A", [1, 2, 3]) | {other: [entry()]})
        assert f"(1): A.mp4/000002.png and {other}" in said
    entries_of = frames("A", [1, 2, 3]) | frames("B", [1, 2, 3])
    assert filter_annotations(entries_of, persons(entries_of), "train").counts.frames == 6


def test_all_faults_are_reported_at_once_by_kind_with_their_number():
    entries_of = frames("A", range(1, 10)) | {"../1.png": [entry()]}
    spoilt = [{"class": "dragon"}] * 5 + [{"class": "unicorn"}, {"bbox": (0, 0, 1)}]
    for number, changes in enumerate(spoilt, 2):
        entries_of[f"A.mp4/{number:06d}.png"][0].update(changes)
    said = refusal(entries_of)
    assert "(1): '../1.png'" in said
    assert re.search(r"'dragon' .*\(5\): A.mp4/000002.*000004.png and 2 more", said)
    assert re.search(r"'unicorn' .*\(1\): A.mp4/000007", said)
    assert re.search(r"four numbers .*\(1\): A.mp4/000008.png", said)


def test_a_thousand_kinds_of_faults_make_no_endless_sentence():
    entries_of = frames("A", range(1, 1001))
    for number, entries in enumerate(entries_of.values()):
        entries[0]["class"] = f"unicorn{number}"
    said = refusal(entries_of)
    assert "988 more" in said
    assert len(said) < 2000


def test_missing_and_broken_pickles_are_all_named(tmp_path):
    entries_of = frames("A", [1, 2, 3])
    for missing in ([OBJECTS_FILE], [PERSONS_FILE], [OBJECTS_FILE, PERSONS_FILE]):
        write_root(tmp_path, entries_of, persons(entries_of))
        for content in (None, b"no pickle"):
            for file in missing:
                path = tmp_path / "annotations" / file
                path.unlink() if content is None else path.write_bytes(content)
            with pytest.raises(InputError) as caught:
                read_annotations(tmp_path, "train")
            for file in (OBJECTS_FILE, PERSONS_FILE):
                assert (file in str(caught.value)) == (file in missing)


def test_what_leaves_nothing_to_read_is_refused_with_the_reason(tmp_path):
    entries_of = frames("A", [1, 2, 3])
    with pytest.raises(InputError, match=f"{tmp_path}.*dataset=synthetic"):
        read_annotations(tmp_path, "train")
    write_root(tmp_path, entries_of, persons(entries_of))
    with pytest.raises(InputError, match="'validation' is not one of train, test"):
        read_annotations(tmp_path, "validation")
    with pytest.raises(InputError, match=f"{SMALL_BOXES_FILE}.*small_boxes=computed"):
        read_annotations(tmp_path, "train", small_boxes="file")
    write_root(tmp_path, entries_of, {"B.mp4/000001.png": person()})
    with pytest.raises(InputError, match=r"of 3 frames 0 .* 0 .* 3 have"):
        read_annotations(tmp_path, "train")
    write_root(tmp_path, {}, {})
    with pytest.raises(InputError, match=f"{OBJECTS_FILE} holds no frames"):
        read_annotations(tmp_path, "train")
