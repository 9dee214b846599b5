"""Frames are cached as decoded and resized, by one process, and made anew for other files."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.frames.cache import FrameCache
from tests.datasets.box_root import open_root, write_box_root

SIZES = {"A.mp4": (24, 40), "B.mp4": (40, 24), "C.mp4": (6, 8)}
SIZES |= {"D.mp4": (15, 40), "E.mp4": (1, 40), "F.mp4": (40, 1)}
LENGTH = 5


class Made:
    """A root of videos of several sizes, whose frames all differ, and the place of their cache."""

    def __init__(self, scratch):
        boxes = [(x, 0, x + 3, 4) for x in range(LENGTH)]
        videos = {video: ((width, height), boxes) for video, (height, width) in SIZES.items()}
        self.root, self.folder = write_box_root(scratch / "root", videos), scratch / "cache"
        source = open_root(self.root, "train", (12, 12))
        self.files, self.videos = source.files, source.videos

    def open(self, size_hw=(12, 12)):
        return FrameCache(self.folder, self.files, self.videos, size_hw)

    def read(self, store):
        """Frames of each video by one read."""
        return [store.read(number, 0, video.frames) for number, video in enumerate(self.videos)]


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path)


def test_cached_frames_are_the_decoded_ones_resized_and_small_ones_do_not_grow(made):
    cache = made.open()
    sizes = [cache.stored_size(size_hw) for size_hw in SIZES.values()]
    assert sizes == [(7, 12), (12, 7), (6, 8), (5, 12), (1, 12), (12, 1)]  # 4.5 rounds up
    for decoded_T3hw, cached_T3hw, size_hw in zip(
        made.read(made.files), made.read(cache), sizes, strict=True
    ):
        decoded_T3hw = transforms.resize(decoded_T3hw, list(size_hw), antialias=True)
        assert torch.equal(cached_T3hw, decoded_T3hw)


def test_every_part_of_a_video_reads_as_in_the_whole_also_in_another_process(made):
    cache = made.open()
    whole, again = made.read(cache), pickle.loads(pickle.dumps(cache))
    for number, video in enumerate(made.videos):
        for start, end in combinations(range(LENGTH + 1), 2):
            part_T3hw = again.read(number, start, video.frames[start:end])
            assert torch.equal(part_T3hw, whole[number][start:end])


def test_one_of_those_that_ask_fills_it_and_then_nothing_is_decoded(made):
    with ThreadPoolExecutor(3) as pool:
        first, *others = pool.map(lambda _: made.read(made.open()), range(3))
    for path in made.root.rglob("*/000004.png"):
        path.unlink()
    (made.folder / ".lock").unlink()
    (made.folder / ".lock").mkdir()  # who reads a whole cache need not be able to write there
    for frames in (*others, made.read(made.open())):
        assert all(map(torch.equal, frames, first))
    assert len(os.listdir(made.folder)) == len(SIZES) + 1  # and its lock


def test_frames_of_another_size_or_extracted_again_are_never_taken_for_others(made):
    made.open()
    assert [frames.shape[2:] for frames in made.read(made.open((20, 20)))][2] == (6, 8)
    path = made.root / "frames" / "A.mp4" / "000001.png"
    Image.new("RGB", (40, 24), "white").save(path)
    os.utime(path, ns=(0, 1))
    assert made.read(made.open())[0][0].min() == 255


def test_a_file_that_is_cut_short_or_a_frame_that_does_not_decode_is_named(made):
    cache = made.open()
    with cache.paths[0].open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match=f"{cache.paths[0]} cannot be read .* remove it"):
        made.read(cache)
    (made.root / "frames" / "B.mp4" / "000004.png").write_bytes(b"text")
    with pytest.raises(InputError, match=r"B.mp4/000004.png cannot be read"):
        made.open((20, 20))
