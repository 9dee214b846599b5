"""Orders and the published file, on a few frames."""

import random

from datasets.annotations.read import SMALL_BOXES_FILE, filter_annotations, read_annotations
from tests.datasets.annotations.making import entry, frames, persons, write_root


def test_videos_are_ordered_by_name_and_frames_by_number_whatever_the_order_of_keys():
    entries_of = frames("B", range(1, 12)) | frames("A", [5, 40, 7])
    entries_of |= {f"A.mp4/{number}.png": [entry()] for number in ("100", "9", "0000023")}
    keys = list(entries_of)
    random.Random(0).shuffle(keys)
    shuffled = {key: entries_of[key] for key in keys}
    first, second = filter_annotations(shuffled, persons(entries_of), "train", "keep").videos
    assert (first.name, second.name) == ("A.mp4", "B.mp4")
    numbers = [int(frame.name[6:-4]) for frame in first.frames]
    assert numbers == [5, 7, 9, 23, 40, 100]


def test_the_published_file_is_read_in_place_of_the_other_and_not_filtered_again(tmp_path):
    entries_of = frames("A", [1, 2, 3, 4])
    published = frames("A", [1, 2, 3], bbox=(0.0, 0.0, 5.0, 5.0))
    write_root(tmp_path, entries_of, persons(entries_of))
    write_root(tmp_path, published, persons(entries_of), SMALL_BOXES_FILE)
    assert read_annotations(tmp_path, "train").remaining[-1].frames == 4
    [video] = read_annotations(tmp_path, "train", small_boxes="file").videos
    assert [f.object_boxes_M4.tolist() for f in video.frames] == [[[0, 0, 5, 5]]] * 3
