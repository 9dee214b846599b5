import os
import pickle
import shutil
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.annotations.targets import FrameTargets, Video
from datasets.frames.cache import open_cache
from datasets.frames.files import FrameFiles

SIZES = {"A.mp4": (24, 40), "B.mp4": (40, 24), "C.mp4": (6, 8), "D.mp4": (24, 40)}
LENGTH = 5


class Made:
    """A root of videos of three sizes, and the place of their cache."""

    def __init__(self, scratch):
        self.root, self.folder = scratch / "root", scratch / "cache" / "test"
        self.files = FrameFiles(self.root)
        rng, self.videos = np.random.default_rng(0), []
        graph = np.zeros((1, 4), np.float32), np.full(1, 2), np.zeros((1, 2), np.int64)
        for video, (h, w) in SIZES.items():
            names = [f"{video}/{number:06d}.png" for number in range(1, LENGTH + 1)]
            (self.root / "frames" / video).mkdir(parents=True)
            for name in names:
                pixels_hw3 = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
                Image.fromarray(pixels_hw3).save(self.root / "frames" / name)
            targets = [FrameTargets(name, (h, w), graph[0][0], *graph) for name in names]
            self.videos.append(Video(video, tuple(targets)))

    def open(self, size_hw=(12, 12)):
        return open_cache(self.folder, self.files, self.videos, size_hw)

    def read(self, store):
        """Frames of each video by one read."""
        return [store.read(number, 0, video.frames) for number, video in enumerate(self.videos)]


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path)


def test_cached_frames_are_the_decoded_ones_resized_and_small_ones_do_not_grow(made):
    cache = made.open()
    sizes = [cache.stored_size(size_hw) for size_hw in SIZES.values()]
    assert sizes == [(7, 12), (12, 7), (6, 8), (7, 12)]
    for decoded_T3hw, cached_T3hw, size_hw in zip(
        made.read(made.files), made.read(cache), sizes, strict=True
    ):
        decoded_T3hw = transforms.resize(decoded_T3hw, list(size_hw), antialias=True)
        assert torch.equal(cached_T3hw, decoded_T3hw)
    assert sorted(os.listdir(made.folder)) == ["frames.u8", "manifest.json"]


def test_every_part_of_a_video_reads_as_in_the_whole_also_in_another_process(made):
    cache = made.open()
    whole, again = made.read(cache), pickle.loads(pickle.dumps(cache))
    for number, video in enumerate(made.videos):
        for start, end in combinations(range(LENGTH + 1), 2):
            part_T3hw = again.read(number, start, video.frames[start:end])
            assert torch.equal(part_T3hw, whole[number][start:end])


def test_one_of_those_that_ask_makes_it_and_then_nothing_is_decoded(made):
    (made.folder / "frames.u8.part").parent.mkdir(parents=True)
    (made.folder / "frames.u8.part").write_bytes(bytes(4500))  # left by a killed run
    (made.folder / "frames.u8").write_bytes(bytes(4500))
    with ThreadPoolExecutor(3) as pool:
        first, *others = pool.map(lambda _: made.read(made.open()), range(3))
    assert first[0].any()
    for path in made.root.rglob("*/000002.png"):
        path.unlink()
    for frames in (*others, made.read(made.open())):
        assert all(map(torch.equal, frames, first))


def test_a_frame_that_does_not_decode_is_named_and_nothing_is_left(made):
    (made.root / "frames" / "B.mp4" / "000002.png").write_bytes(b"text")
    with pytest.raises(InputError, match=r"B.mp4/000002.png cannot be read"):
        made.open()
    assert not os.listdir(made.folder)


def test_a_cache_of_other_frames_or_not_whole_is_refused(made):
    cache, path = made.open(), made.root / "frames" / "A.mp4" / "000001.png"

    def refused(size_hw=(12, 12)):
        with pytest.raises(InputError, match=rf"{made.folder} is of other .*; remove it"):
            made.open(size_hw)

    refused((20, 20))
    made.videos.reverse()
    refused()
    made.videos.reverse()
    os.utime(path, ns=(0, 1))  # extracted again
    refused()
    shutil.rmtree(made.folder)
    made.open()
    with (made.folder / "frames.u8").open("r+b") as file:
        file.truncate(1000)
    refused()
    with pytest.raises(InputError, match="cut short"):
        made.read(cache)
    (made.folder / "manifest.json").write_text("{}")
    refused()


def test_a_disk_that_is_too_small_is_reported_before_anything_is_decoded(made, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(4499))
    with pytest.raises(InputError, match=r"needs 0\.0 MiB and 0\.0 MiB are free"):
        made.open()
