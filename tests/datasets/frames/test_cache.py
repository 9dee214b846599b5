import errno
import os
import pickle
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations, pairwise
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import FRAMES_FOLDER, Video
from datasets.annotations.targets import FrameTargets
from datasets.frames import cache as caching
from datasets.frames.cache import open_cache
from datasets.frames.files import FrameFiles
from datasets.frames.manifest import Manifest, write_manifest

SIZES = {"A.mp4": (24, 40), "B.mp4": (40, 24), "C.mp4": (6, 8), "D.mp4": (24, 40)}
LENGTH = 5


class Files(FrameFiles):
    """Notes the number and name of every frame that is read."""

    def __init__(self, root):
        super().__init__(root)
        self.noted = []

    def read(self, first, targets):
        self.noted += [(first + step, target.name) for step, target in enumerate(targets)]
        return super().read(first, targets)


class Made:
    """A root of videos of three sizes, and the place of their cache."""

    def __init__(self, scratch):
        self.root, self.folder = scratch / "root", scratch / "cache" / "test"
        self.files = Files(self.root)
        rng, videos = np.random.default_rng(0), []
        graph = np.zeros((1, 4), np.float32), np.full(1, 2), np.zeros((1, 2), np.int64)
        for video, (h, w) in SIZES.items():
            names = [f"{video}/{number:06d}.png" for number in range(1, LENGTH + 1)]
            (self.root / FRAMES_FOLDER / video).mkdir(parents=True)
            for name in names:
                pixels_hw3 = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
                Image.fromarray(pixels_hw3).save(self.root / FRAMES_FOLDER / name)
            targets = [FrameTargets(name, (h, w), graph[0][0], *graph) for name in names]
            videos.append(Video(video, tuple(targets)))
        self.table = FrameTable.from_videos(videos)

    def open(self, size_hw=(12, 12), **other):
        return open_cache(self.folder, self.files, size_hw=size_hw, **{"table": self.table} | other)

    def read(self, store):
        """Frames of each video by one read."""
        return [
            store.read(first, [self.table.frame(video, t) for t in range(end - first)])
            for video, (first, end) in enumerate(pairwise(self.table.video_offsets.tolist()))
        ]

    def kept(self):
        return sorted(path.name for path in self.folder.glob("*"))


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path)


def same(frames, others):
    return all(map(torch.equal, frames, others))


def test_cached_frames_are_the_decoded_ones_resized_and_small_ones_do_not_grow(made):
    cache = made.open()
    sizes = [cache.stored_size(size_hw) for size_hw in SIZES.values()]
    assert sizes == [(7, 12), (12, 7), (6, 8), (7, 12)]
    for decoded_T3hw, cached_T3hw, size_hw in zip(
        made.read(made.files), made.read(cache), sizes, strict=True
    ):
        assert cached_T3hw.shape == (LENGTH, 3, *size_hw)
        if size_hw != decoded_T3hw.shape[2:]:
            decoded_T3hw = transforms.resize(decoded_T3hw, list(size_hw), antialias=True)
        assert torch.equal(cached_T3hw, decoded_T3hw)
    assert made.kept() == ["frames.u8", "manifest.json"]
    assert (made.folder / "frames.u8").stat().st_size == LENGTH * 3 * (3 * 7 * 12 + 6 * 8)


def test_every_part_of_a_video_reads_as_in_the_whole(made):
    cache = made.open()
    whole, table = made.read(cache), made.table
    for video, first in enumerate(table.video_offsets[:-1].tolist()):
        for start, end in combinations(range(LENGTH + 1), 2):
            targets = [table.frame(video, t) for t in range(start, end)]
            assert torch.equal(cache.read(first + start, targets), whole[video][start:end])


def test_each_frame_is_decoded_once_and_later_epochs_and_runs_decode_nothing(made):
    with ThreadPoolExecutor(3) as pool:  # one of those that ask at the same time makes it
        caches = list(pool.map(lambda _: made.open(), range(3)))
    first_epoch = made.read(caches[0])
    for again in (*caches, made.open()):
        assert same(made.read(again), first_epoch)
    assert sorted(made.files.noted) == list(enumerate(made.table.names_F.tolist()))
    assert sorted(os.listdir(made.folder.parent)) == [".test.lock", "test"]


def test_what_a_killed_build_leaves_is_never_taken_for_whole(made):
    made.folder.mkdir(parents=True)
    for name in ("frames.u8.part", "frames.u8", "manifest.json.part"):
        (made.folder / name).write_bytes(bytes(4500))
    frames = made.read(made.open())
    assert made.kept() == ["frames.u8", "manifest.json"]
    assert frames[0].any()


def test_a_frame_that_does_not_decode_is_named_and_nothing_is_left(made):
    (made.root / FRAMES_FOLDER / "B.mp4" / "000002.png").write_bytes(b"text")
    with pytest.raises(InputError, match=r"B.mp4/000002.png cannot be read"):
        made.open()
    assert not made.kept()


def test_frames_written_anew_are_noticed(made):
    frames = made.root / FRAMES_FOLDER
    path, seen = frames / "A.mp4" / "000001.png", []

    def noted():
        seen.append(FrameFiles(made.root).identity(made.table))
        return len(set(seen)) == len(seen)

    assert noted()
    path.with_name("000002.png").write_bytes(b"text")
    assert not noted(), "a later frame does not count"
    seen.pop()
    before = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes() + b"longer")
    for written_ns in (before, before + 1):
        os.utime(path, ns=(before, written_ns))
        assert noted()
    (made.root / "synthetic.json").write_text("{}")
    assert noted()
    write_manifest(frames, Manifest(short_side=20))
    assert noted()
    path.unlink()
    assert noted()


def test_a_cache_of_other_frames_or_not_whole_is_refused_with_what_differs(made):
    cache = made.open()
    offsets, manifest = made.table.video_offsets.copy(), made.folder / "manifest.json"
    offsets[1] += 1

    def refused(what, **other):
        with pytest.raises(InputError, match=rf"{what}.*; remove {made.folder} and it is made"):
            made.open(**other)

    refused("size", size_hw=(20, 20))
    for change in (
        {"names_F": made.table.names_F[::-1].copy()},
        {"sizes_F2": made.table.sizes_F2[:, ::-1].copy()},
        {"video_offsets": offsets},
    ):
        refused("names", table=replace(made.table, **change))
    (made.root / "synthetic.json").write_text("{}")
    refused("source")
    with (made.folder / "frames.u8").open("r+b") as file:
        file.truncate(1000)
    refused("bytes on disk")
    with pytest.raises(InputError, match=r"frames.u8 ends at byte 1000"):
        made.read(cache)  # and no bus error
    for content, said in (
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "cache .* is of"),
    ):
        manifest.write_text(content)
        refused(said)


def test_something_else_in_its_place_is_never_written_over(made):
    made.folder.mkdir(parents=True)
    for name in ("frames.u8", "thesis.txt"):
        (made.folder / name).write_text("text")
    with pytest.raises(InputError, match=f"{made.folder} exists and is no frame cache"):
        made.open()
    assert made.kept() == ["frames.u8", "thesis.txt"]


def test_a_full_disk_is_reported_before_anything_is_decoded_or_with_nothing_left(made, monkeypatch):
    usage = namedtuple("usage", "free")
    with monkeypatch.context() as patch:
        patch.setattr(caching.shutil, "disk_usage", lambda path: usage(4499))
        with pytest.raises(InputError, match=r"needs 0\.0 MiB and 0\.0 MiB are free"):
            made.open()
        assert not made.files.noted
        patch.setattr(caching.shutil, "disk_usage", lambda path: usage(4500))
        patch.setattr(caching.os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space")))
        with pytest.raises(OSError, match="No space"):
            made.open()
    assert not made.kept()
    made.open()


def test_a_pickled_cache_and_workers_read_the_same_whatever_is_done_to_what_was_read(made):
    cache, table = made.open(), made.table
    before = made.read(cache)
    made.read(cache)[0].zero_()
    assert same(made.read(pickle.loads(pickle.dumps(cache))), before)
    runs = [(5 * video, [table.frame(video, t) for t in range(LENGTH)]) for video in range(4)]
    options = {"batch_size": None, "num_workers": 1, "collate_fn": lambda run: cache.read(*run)}
    assert same(torch.utils.data.DataLoader(runs, **options), before)
