import pickle
import random

import numpy as np
import pytest

from bload.errors import InputError
from datasets.annotations.read import filter_annotations, read_annotations
from datasets.annotations.rules import small_boxes_choice
from datasets.annotations.vocabulary import RELATIONS
from datasets.build import build_source


def entry(visible=True, split="train", object_class="sofa/couch", **changes):
    shown = {
        "bbox": (10.0, 20.0, 30.0, 25.0),
        "attention_relationship": ["looking_at"],
        "spatial_relationship": ["behind", "beneath"],
        "contacting_relationship": ["sitting_on"],
    }
    return (
        {"class": object_class, "metadata": {"tag": "x", "set": split}, "visible": visible}
        | (shown if visible else dict.fromkeys(shown))
        | changes
    )


def person(rows=1):
    return {
        "bbox": np.arange(rows * 4, dtype=np.float32).reshape(rows, 4),
        "bbox_score": np.ones(rows, dtype=np.float32),
        "bbox_size": (480, 270),
        "bbox_mode": "xyxy",
        "keypoints": np.zeros((rows, 17, 3), dtype=np.float32),
        "keypoints_logits": np.zeros((rows, 17), dtype=np.float32),
    }


def frames(video, numbers, **changes):
    return {f"{video}.mp4/{number:06d}.png": [entry(**changes)] for number in numbers}


def persons(entries_of):
    return {name: person() for name in entries_of}


def names(annotations):
    return [video.name for video in annotations.videos]


def test_three_frames_count_and_two_do_not():
    entries_of = frames("A", [1, 2, 3]) | frames("B", [1, 2])
    annotations = filter_annotations(entries_of, persons(entries_of), "train")
    assert names(annotations) == ["A.mp4"]
    counts = annotations.counts
    assert (counts.frames_in_split, counts.frames, counts.videos) == (5, 3, 1)
    assert (counts.short_videos, counts.frames_in_short_videos) == (1, 2)


def test_frames_without_visible_objects_are_dropped_before_videos_are_counted():
    entries_of = frames("A", [1, 2]) | frames("A", [3], visible=False)
    annotations = filter_annotations(entries_of, persons(entries_of), "train")
    assert annotations.videos == ()
    assert annotations.counts.without_visible_object == 1


@pytest.mark.parametrize("missing", ["no rows", "no entry"])
def test_frames_without_a_person_are_dropped(missing):
    entries_of = frames("A", [1, 2, 3, 4])
    person_of = persons(entries_of)
    if missing == "no rows":
        person_of["A.mp4/000002.png"] = person(rows=0)
    else:
        del person_of["A.mp4/000002.png"]
    annotations = filter_annotations(entries_of, person_of, "train")
    assert [frame.name[-7:] for frame in annotations.videos[0].frames] == [
        "001.png",
        "003.png",
        "004.png",
    ]
    assert annotations.counts.without_person == 1


def test_only_visible_objects_stay_even_if_the_first_is_invisible():
    entries_of = frames("A", [1, 2, 3])
    entries_of["A.mp4/000002.png"] = [
        entry(visible=False, object_class="door"),
        entry(object_class="cup/glass/bottle"),
        entry(visible=False, object_class="bed"),
        entry(object_class="papernotebook"),
    ]
    frame = filter_annotations(entries_of, persons(entries_of), "train").videos[0].frames[1]
    assert frame.object_classes_M.tolist() == [11, 23]
    assert set(frame.relations_G2[:, 0].tolist()) == {0, 1}


def test_the_first_entry_says_the_split_even_if_it_is_invisible():
    entries_of = frames("A", [1, 2, 3])
    for entries in entries_of.values():
        entries.insert(0, entry(visible=False, split="test"))
    assert names(filter_annotations(entries_of, persons(entries_of), "test")) == ["A.mp4"]
    assert names(filter_annotations(entries_of, persons(entries_of), "train")) == []


def test_a_frame_without_entries_is_in_no_split():
    entries_of = frames("A", [1, 2, 3]) | {"A.mp4/000009.png": []}
    assert filter_annotations(entries_of, persons(entries_of), "train").counts.frames == 3


def test_order_does_not_depend_on_the_order_of_keys():
    entries_of = frames("B", range(1, 12)) | frames("A", [5, 40, 7])
    keys = list(entries_of)
    random.Random(0).shuffle(keys)
    shuffled = {key: entries_of[key] for key in keys}
    annotations = filter_annotations(shuffled, persons(shuffled), "train")
    assert names(annotations) == ["A.mp4", "B.mp4"]
    assert [frame.name for frame in annotations.videos[0].frames] == [
        "A.mp4/000005.png",
        "A.mp4/000007.png",
        "A.mp4/000040.png",
    ]


def test_boxes_become_corners_and_labels_keep_their_order():
    entries_of = frames("A", [1, 2, 3])
    person_of = {name: person(rows=2) for name in entries_of}
    frame = filter_annotations(entries_of, person_of, "train").videos[0].frames[0]
    assert frame.object_boxes_M4.tolist() == [[10, 20, 40, 45]]
    assert frame.object_boxes_M4.dtype == np.float32
    assert frame.person_box_4.tolist() == [0, 1, 2, 3]
    assert frame.size_hw == (270, 480)
    labels = [RELATIONS[relation] for relation in frame.relations_G2[:, 1]]
    assert labels == ["looking_at", "behind", "beneath", "sitting_on"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class": "unicorn"}, "'unicorn'"),
        ({"spatial_relationship": ["looking_at"]}, "'looking_at' is not a spatial"),
        ({"bbox": None}, "box is not four numbers"),
        ({"bbox": (1.0, float("nan"), 2.0, 3.0)}, "box is not four numbers"),
        ({"metadata": None}, "lists and dictionaries as they should be"),
    ],
)
def test_a_bad_entry_is_refused_with_the_name_of_its_frame(changes, message):
    entries_of = frames("A", [1, 2, 3])
    entries_of["A.mp4/000002.png"][0].update(changes)
    with pytest.raises(InputError, match=message) as caught:
        filter_annotations(entries_of, persons(entries_of), "train")
    assert "A.mp4/000002.png" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../000001.png", "/etc/000001.png", "A/../000001.png", "..\\A/1.png", "A/x.png", 7]
)
def test_names_that_leave_the_root_are_refused(name):
    with pytest.raises(InputError, match="not of the form VIDEO/NUMBER"):
        filter_annotations({name: [entry()]}, {}, "train")


@pytest.mark.parametrize("other", ["A.mp4/000002.jpg", "A.mp4/2.png", "A.mp4/0000002.png"])
def test_a_frame_under_two_names_is_told_with_both(other):
    entries_of = frames("A", [1, 2, 3]) | {other: [entry()]}
    with pytest.raises(InputError, match=f"two names \\(1\\): A.mp4/000002.png and {other}; mend"):
        filter_annotations(entries_of, persons(entries_of), "train")


def test_the_same_number_in_two_videos_is_two_frames():
    entries_of = frames("A", [1, 2, 3]) | frames("B", [1, 2, 3])
    assert names(filter_annotations(entries_of, persons(entries_of), "train")) == ["A.mp4", "B.mp4"]


def test_frame_0_is_refused_for_videos_begin_with_frame_1():
    entries_of = frames("A", [0, 1, 2, 3])
    with pytest.raises(InputError, match=r"begin with frame 1 \(1\): A.mp4/000000.png"):
        filter_annotations(entries_of, persons(entries_of), "train")


def write_root(root, entries_of, person_of, objects_file="object_bbox_and_relationship.pkl"):
    folder = root / "annotations"
    folder.mkdir(exist_ok=True)
    (folder / objects_file).write_bytes(pickle.dumps(entries_of))
    (folder / "person_bbox.pkl").write_bytes(pickle.dumps(person_of))


@pytest.mark.parametrize(
    ("short_side", "stays"),
    [(15.9, False), (16, False), (16.0, False), (16.000001, True), (16.5, True), (17, True)],
)
def test_a_box_of_16_pixels_is_small_and_one_of_16_and_a_half_is_not(short_side, stays):
    entries_of = frames("A", [1, 2, 3], bbox=(0.0, 0.0, 99.0, short_side))
    entries_of |= frames("B", [1, 2, 3], bbox=(0.0, 0.0, short_side, 99.0))
    person_of = persons(entries_of)
    kept = filter_annotations(entries_of, person_of, "train", small_boxes="keep")
    assert names(kept) == ["A.mp4", "B.mp4"]
    computed = filter_annotations(entries_of, person_of, "train", small_boxes="computed")
    assert names(computed) == (["A.mp4", "B.mp4"] if stays else [])
    assert computed.counts.with_small_objects_alone == (0 if stays else 6)


def test_a_small_first_object_still_says_the_split_and_leaves_the_others():
    entries_of = frames("A", [1, 2, 3])
    for entries in entries_of.values():
        entries.insert(0, entry(bbox=(0, 0, 5, 5), object_class="door"))
    computed = filter_annotations(entries_of, persons(entries_of), "train", small_boxes="computed")
    assert [f.object_classes_M.tolist() for f in computed.videos[0].frames] == [[31]] * 3


def test_steps_count_frames_videos_and_objects_after_each_rule():
    entries_of = (
        frames("A", [1, 2, 3, 4])
        | frames("B", [1, 2, 3], bbox=(0, 0, 9, 9))
        | frames("C", [1], visible=False)
        | frames("D", [1, 2])
        | frames("E", [1], split="test")
    )
    entries_of["A.mp4/000001.png"].append(entry(visible=False))
    person_of = persons(entries_of) | {"A.mp4/000004.png": person(rows=0)}
    counts = filter_annotations(entries_of, person_of, "train", small_boxes="computed").counts
    assert [(step.frames, step.videos, step.objects) for step in counts.steps] == [
        (10, 4, 11),
        (9, 3, 10),
        (6, 2, 6),
        (5, 2, 5),
        (5, 2, 5),
        (3, 1, 3),
    ]


def test_boxes_without_an_area_stay_and_are_counted_in_frames_that_count():
    flat = [(10.0, 10.0, -5.0, 20.0), (10.0, 10.0, 20.0, 0.0), (0.0, 0.0, -1.0, -1.0)]
    entries_of = frames("A", range(1, 5)) | frames("B", [1], bbox=flat[0])
    for number, box in enumerate(flat, 1):
        entries_of[f"A.mp4/{number:06d}.png"].append(entry(bbox=box))
    person_of = persons(entries_of)
    person_of["A.mp4/000004.png"]["bbox"] = np.array([[9, 9, 9, 20]], dtype=np.float32)
    annotations = filter_annotations(entries_of, person_of, "train")
    assert annotations.counts.boxes_without_area == 4
    assert annotations.videos[0].frames[0].object_boxes_M4[1].tolist() == [10, 10, 5, 30]
    sound = frames("A", [1, 2, 3])
    assert filter_annotations(sound, persons(sound), "train").counts.boxes_without_area == 0


def test_an_unknown_choice_for_small_boxes_is_named(tmp_path):
    with pytest.raises(InputError, match="'drop'; choose keep, file, computed"):
        read_annotations(tmp_path, "train", small_boxes="drop")


@pytest.mark.parametrize(
    ("saved", "choice"), [(True, "file"), (False, "keep"), ("computed", "computed")]
)
def test_truth_values_of_older_configs_still_say_what_they_said(saved, choice):
    assert small_boxes_choice(saved) == choice


@pytest.mark.parametrize("saved", [False, "keep"])
def test_a_config_with_a_truth_value_still_makes_its_source(small_root, saved):
    options = {"name": "action_genome", "root": str(small_root), "frame_size": [64, 64]}
    assert len(build_source("test", **options, small_boxes=saved)) == 4


def test_all_faults_are_told_at_once_by_kind_with_their_number():
    entries_of = frames("A", range(1, 10)) | {"../1.png": [entry()]}
    spoilt = [{"class": "dragon"}] * 5 + [{"class": "unicorn"}, {"bbox": (0, 0, 1)}]
    for number, changes in enumerate(spoilt, 2):
        entries_of[f"A.mp4/{number:06d}.png"][0].update(changes)
    with pytest.raises(InputError) as caught:
        filter_annotations(entries_of, persons(entries_of), "train")
    message = str(caught.value)
    assert "VIDEO/NUMBER.png (1): '../1.png', and frames in which" in message
    assert (
        "object class 'dragon' is not one of the 36 of Action Genome (5): A.mp4/000002" in message
    )
    assert "A.mp4/000004.png and 2 more, and frames" in message
    assert (
        "object class 'unicorn' is not one of the 36 of Action Genome (1): A.mp4/000007" in message
    )
    assert "box is not four numbers within 1,000,000 pixels (1): A.mp4/000008.png; mend" in message


def test_a_thousand_kinds_of_faults_make_no_endless_sentence():
    entries_of = frames("A", range(1, 1001))
    for number, entries in enumerate(entries_of.values()):
        entries[0]["class"] = f"unicorn{number}"
    with pytest.raises(InputError, match="and 988 more kinds of problems; mend") as caught:
        filter_annotations(entries_of, persons(entries_of), "train")
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bbox_size": (0, 270)}, "bbox_size is"),
        ({"bbox_size": (10**30, 270)}, "bbox_size is"),
        ({"bbox_size": (float("nan"), 270)}, "bbox_size is"),
        ({"bbox_size": None}, "bbox_size is None"),
        ({"bbox": [[0, 0, 1]]}, "box is not four numbers"),
        ({"bbox": [[0, 0, 1, float("inf")]]}, "box is not four numbers"),
        ({"bbox": "0011"}, "not rows of xyxy"),
        ({"bbox_mode": "xywh"}, "'xywh', not rows of xyxy"),
    ],
)
def test_a_bad_person_is_refused_with_the_name_of_its_frame(changes, message):
    entries_of = frames("A", [1, 2, 3])
    person_of = persons(entries_of)
    person_of["A.mp4/000003.png"].update(changes)
    with pytest.raises(InputError, match=message) as caught:
        filter_annotations(entries_of, person_of, "train")
    assert "A.mp4/000003.png" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"visible": "yes"}, "visible is 'yes'"),
        ({"visible": np.array([True, False])}, "visible is array"),
        ({"bbox": ("1", "2", "3", "4")}, "box is not four numbers"),
        ({"bbox": (10**5000, 2, 3, 4)}, "box is not four numbers"),
        ({"spatial_relationship": "behind"}, "not a list of up to"),
        ({"spatial_relationship": ["behind"] * 1000}, "not a list of up to"),
        ({"class": ["sofa/couch"]}, "object class"),
        ({"class": "__background__"}, "object class '__background__'"),
        ({"metadata": {"set": 7}}, "set is 7, not a text"),
    ],
)
def test_values_of_another_type_or_size_are_refused(changes, message):
    entries_of = frames("A", [1, 2, 3])
    entries_of["A.mp4/000002.png"][0].update(changes)
    with pytest.raises(InputError, match=message) as caught:
        filter_annotations(entries_of, persons(entries_of), "train")
    assert "A.mp4/000002.png" in str(caught.value)


def test_a_frame_of_a_thousand_objects_is_refused():
    entries_of = frames("A", [1, 2, 3]) | {"A.mp4/000009.png": [entry()] * 1000}
    with pytest.raises(InputError, match="not a list of up to 64 objects"):
        filter_annotations(entries_of, persons(entries_of), "train")


@pytest.mark.parametrize("missing", ["objects", "persons", "both"])
def test_missing_pickles_are_all_named(tmp_path, missing):
    (tmp_path / "annotations").mkdir()
    files = {"objects": "object_bbox_and_relationship.pkl", "persons": "person_bbox.pkl"}
    for kind, file in files.items():
        if missing not in (kind, "both"):
            (tmp_path / "annotations" / file).write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(InputError, match=r"lacks .*; put Action Genome's annotations") as caught:
        read_annotations(tmp_path, "train")
    for kind, file in files.items():
        assert (file in str(caught.value)) == (missing in (kind, "both"))


def test_two_broken_pickles_are_both_named(tmp_path):
    (tmp_path / "annotations").mkdir()
    for file in ("object_bbox_and_relationship.pkl", "person_bbox.pkl"):
        (tmp_path / "annotations" / file).write_bytes(b"no pickle")
    with pytest.raises(InputError, match=r"relationship\.pkl .*, and .*person_bbox.pkl"):
        read_annotations(tmp_path, "train")


def test_without_the_small_box_file_the_way_out_is_to_compute(tmp_path):
    write_root(tmp_path, frames("A", [1, 2, 3]), persons(frames("A", [1, 2, 3])))
    with pytest.raises(InputError, match=r"filtersmall\.pkl; .* choose small_boxes=computed"):
        read_annotations(tmp_path, "train", small_boxes="file")


def test_small_boxes_reads_the_other_file(tmp_path):
    entries_of = frames("A", [1, 2, 3, 4])
    write_root(tmp_path, entries_of, persons(entries_of))
    fewer = frames("A", [1, 2, 3])
    file = "object_bbox_and_relationship_filtersmall.pkl"
    write_root(tmp_path, fewer, persons(entries_of), file)
    assert read_annotations(tmp_path, "train").counts.frames == 4
    assert read_annotations(tmp_path, "train", small_boxes="file").counts.frames == 3


def test_a_root_without_annotations_is_named_with_the_remedy(tmp_path):
    with pytest.raises(InputError, match=r"put its annotations there.*dataset=synthetic"):
        read_annotations(tmp_path, "train")


def test_an_unknown_split_is_named(tmp_path):
    with pytest.raises(InputError, match="'validation' is not one of train, test"):
        read_annotations(tmp_path, "validation")


def test_an_empty_pickle_is_named(tmp_path):
    write_root(tmp_path, {}, {})
    with pytest.raises(InputError, match=r"object_bbox_and_relationship\.pkl holds no frames"):
        read_annotations(tmp_path, "train")


def test_files_that_do_not_belong_together_are_told_with_counts(tmp_path):
    write_root(tmp_path, frames("A", [1, 2, 3]), {"B.mp4/000001.png": person()})
    with pytest.raises(InputError, match="of 3 frames 0 show no object, 0 only small ones, 3 have"):
        read_annotations(tmp_path, "train")
