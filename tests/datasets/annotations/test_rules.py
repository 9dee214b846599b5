"""Orders, corners, the published file and the steps of the rules, on a few frames."""

import random

from datasets.annotations.read import SMALL_BOXES_FILE, filter_annotations, read_annotations
from tests.datasets.annotations.making import entry, frames, person, persons, write_root


def names(annotations):
    return [video.name for video in annotations.videos]


def filtered(entries_of, split="train", person_of=None, **options):
    return filter_annotations(entries_of, person_of or persons(entries_of), split, **options)


def test_videos_are_ordered_by_name_and_frames_by_number_whatever_the_order_of_keys():
    entries_of = frames("B", range(1, 12)) | frames("A", [5, 40, 7])
    entries_of |= {f"A.mp4/{number}.png": [entry()] for number in ("100", "9", "0000023")}
    keys = list(entries_of)
    random.Random(0).shuffle(keys)
    annotations = filtered({key: entries_of[key] for key in keys})
    assert names(annotations) == ["A.mp4", "B.mp4"]
    numbers = [int(frame.name[6:-4]) for frame in annotations.videos[0].frames]
    assert numbers == [5, 7, 9, 23, 40, 100]


def test_the_published_file_is_read_in_place_of_the_other_and_not_filtered_again(tmp_path):
    entries_of = frames("A", [1, 2, 3, 4])
    published = frames("A", [1, 2, 3], bbox=(0.0, 0.0, 5.0, 5.0))
    write_root(tmp_path, entries_of, persons(entries_of))
    write_root(tmp_path, published, persons(entries_of), SMALL_BOXES_FILE)
    assert read_annotations(tmp_path, "train").steps[-1].frames == 4
    [video] = read_annotations(tmp_path, "train", small_boxes="file").videos
    assert [f.object_boxes_M4.tolist() for f in video.frames] == [[[0, 0, 5, 5]]] * 3


def test_steps_count_frames_videos_and_objects_after_each_rule():
    entries_of = frames("A", [1, 2, 3, 4]) | frames("B", [1, 2, 3], bbox=(0, 0, 9, 9))
    entries_of |= frames("C", [1], visible=False) | frames("D", [1, 2])
    entries_of |= frames("E", [1], split="test")
    entries_of["A.mp4/000001.png"].append(entry(visible=False))
    person_of = persons(entries_of) | {"A.mp4/000004.png": person(rows=0)}
    steps = filtered(entries_of, person_of=person_of, small_boxes="computed").steps
    left = [(step.frames, step.videos, step.objects) for step in steps]
    assert left == [(10, 4, 11), (9, 3, 10), (6, 2, 6), (5, 2, 5), (5, 2, 5), (3, 1, 3)]
