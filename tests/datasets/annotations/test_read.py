"""Files of annotations: which is read, and faults, whose frames and files are named."""

import re

import pytest

from bload.errors import InputError
from datasets.annotations.read import (
    OBJECTS_FILE,
    PERSONS_FILE,
    SMALL_BOXES_FILE,
    filter_annotations,
    read_annotations,
    trained_pairs,
)
from datasets.annotations.vocabulary import OBJECTS, RELATIONS
from tests.datasets.annotations.making import entry, frames, person, persons, write_root

NAME = "A.mp4/000002.png"
BAD_ENTRIES = (
    ({"class": "unicorn"}, "'unicorn'"),
    ({"spatial_relationship": ["looking_at"]}, "'looking_at' .* spatial"),
    ({"bbox": None}, "four numbers"),
    ({"bbox": (1.0, float("nan"), 2.0, 3.0)}, "four numbers"),
    ({"metadata": None}, "TypeError"),
)
BAD_PERSONS = (
    ({"bbox_size": (0, 270)}, "bbox_size is"),
    ({"bbox": [[0, 0, 1]]}, "four numbers"),
)


def faults(entries_of, person_of=None) -> str:
    annotations = filter_annotations(entries_of, person_of or persons(entries_of), "train", "keep")
    return "\n".join(annotations.problems.sentences())


@pytest.mark.parametrize(("is_person", "bad"), [(False, BAD_ENTRIES), (True, BAD_PERSONS)])
def test_a_bad_value_is_reported_with_the_name_of_its_frame(is_person, bad):
    for changes, message in bad:
        entries_of = frames("A", [1, 2, 3])
        person_of = persons(entries_of)
        (person_of[NAME] if is_person else entries_of[NAME][0]).update(changes)
        said = faults(entries_of, person_of)
        assert re.search(message, said), (changes, said)
        assert NAME in said


def test_names_that_leave_the_root_or_are_of_another_form_are_faults():
    for name in ("../000001.png", "/etc/000001.png", "A/../000001.png", "A/x.png", 7):
        assert "VIDEO/NUMBER" in faults({name: [entry()]}, {"x": person()})
    assert "(1): A.mp4/000000.png" in faults(frames("A", [0, 1, 2, 3]))  # they begin with 1


def test_all_faults_are_raised_at_once_by_kind_with_their_number(tmp_path):
    entries_of = frames("A", range(1, 10)) | {"../1.png": [entry()]}
    spoilt = [{"class": "dragon"}] * 5 + [{"class": "unicorn"}, {"bbox": (0, 0, 1)}]
    for number, changes in enumerate(spoilt, 2):
        entries_of[f"A.mp4/{number:06d}.png"][0].update(changes)
    write_root(tmp_path, entries_of, persons(entries_of))
    with pytest.raises(InputError) as caught:
        read_annotations(tmp_path, "train")
    for pattern in (
        rf"^{tmp_path}.*\(1\): '../1.png'",
        r"'dragon' .*\(5\): A.mp4/000002.*000004.png and 2 more",
        r"'unicorn' .*\(1\): A.mp4/000007",
        r"four numbers .*\(1\): A.mp4/000008.png",
    ):
        assert re.search(pattern, str(caught.value))


def test_files_that_are_missing_broken_or_leave_nothing_are_refused_with_the_reason(tmp_path):
    def refused(match, split="train", **options):
        with pytest.raises(InputError, match=match):
            read_annotations(tmp_path, split, **options)

    refused(f"{tmp_path} .*put its annotations there, .* annotations/ and frames/")
    entries_of = frames("A", [1, 2, 3])
    write_root(tmp_path, entries_of, persons(entries_of))
    refused("splits train and test alone, and 'validation' is neither", split="validation")
    refused(f"{SMALL_BOXES_FILE} cannot be read", small_boxes="file")
    refused("'drop'.*keep, file or computed", small_boxes="drop")
    write_root(tmp_path, entries_of, {"B.mp4/000001.png": person()})
    refused(r"3 \(some object is visible\), 0 \(the person has a box\)")
    write_root(tmp_path, {}, {})
    refused("has no frames")
    for file in (OBJECTS_FILE, PERSONS_FILE):
        write_root(tmp_path, entries_of, persons(entries_of))
        (tmp_path / "annotations" / file).unlink()
        refused(f"{file} cannot be read")


def test_training_has_the_pairs_of_its_split_under_its_rule_and_none_without_its_videos(tmp_path):
    tested = frames("C", [1, 2, 3], split="test", **{"class": "dish"})
    small = frames("B", [1, 2, 3], bbox=(0, 0, 9, 9), **{"class": "chair"})
    entries_of = tested | small | frames("A", [1, 2, 3])
    write_root(tmp_path, entries_of, persons(entries_of))
    for small_boxes, classes in (("keep", {"sofa/couch", "chair"}), ("computed", {"sofa/couch"})):
        pairs_KR = trained_pairs(tmp_path, small_boxes)
        assert {OBJECTS[number] for number in pairs_KR.any(1).nonzero()[0]} == classes
        relations = {RELATIONS[number] for number in pairs_KR.any(0).nonzero()[0]}
        assert relations == {"looking_at", "behind", "beneath", "sitting_on"}
    (video,) = read_annotations(tmp_path, "validation", validation=0.4).videos
    held_out = video.frames[0].object_classes_M[0]
    assert not trained_pairs(tmp_path, "keep", 0.4)[held_out].any()
    write_root(tmp_path, tested, persons(tested))
    trained_pairs.cache_clear()
    assert trained_pairs(tmp_path, "keep") is None
    write_root(tmp_path, entries_of, persons(entries_of))
    (tmp_path / "annotations" / OBJECTS_FILE).rename(tmp_path / "annotations" / SMALL_BOXES_FILE)
    assert trained_pairs(tmp_path, "file") is not None


def test_the_published_file_is_read_in_place_of_the_other_and_not_filtered_again(tmp_path):
    entries_of = frames("A", [1, 2, 3, 4])
    published = frames("A", [1, 2, 3], bbox=(0.0, 0.0, 5.0, 5.0))
    write_root(tmp_path, entries_of, persons(entries_of))
    write_root(tmp_path, published, persons(entries_of), SMALL_BOXES_FILE)
    assert read_annotations(tmp_path, "train").remaining[-1].frames == 4
    [video] = read_annotations(tmp_path, "train", small_boxes="file").videos
    assert [f.object_boxes_M4.tolist() for f in video.frames] == [[[0, 0, 5, 5]]] * 3
