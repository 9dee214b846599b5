import errno
import multiprocessing
import os
import pickle
import shutil
import signal
from collections import namedtuple
from dataclasses import replace

import pytest
import torch
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames import cache_file
from datasets.frames.cache import open_cache
from datasets.frames.sizes import fit
from tests.datasets.frames.cache_making import (
    LENGTH,
    SIZES,
    Files,
    build,
    make_frames,
    read_all,
)

SIZE = (12, 12)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def table(root):
    return make_frames(root)


@pytest.fixture
def store(root, table, tmp_path):
    return Files(root, tmp_path / "log")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "test"


@pytest.fixture
def opened(table, store, folder):
    """Opens the cache as a run would."""
    return lambda size_hw=SIZE: open_cache(
        folder, store, table, size_hw, source=store.identity(table)
    )


def below(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_cached_frames_are_the_decoded_ones_resized_and_small_ones_do_not_grow(
    opened, store, table, folder
):
    cache = opened()
    sizes = [cache.stored_size(size_hw) for size_hw in SIZES.values()]
    assert sizes == [(7, 12), (12, 7), (6, 8), (7, 12)]
    assert sizes[0] == fit((24, 40), SIZE)
    for decoded_T3hw, cached_T3hw, size_hw in zip(
        read_all(store, table), read_all(cache, table), sizes, strict=True
    ):
        assert cached_T3hw.shape == (LENGTH, 3, *size_hw)
        if size_hw != decoded_T3hw.shape[2:]:
            decoded_T3hw = transforms.resize(decoded_T3hw, list(size_hw), antialias=True)
        assert torch.equal(cached_T3hw, decoded_T3hw)
    assert below(folder) == ["frames.u8", "manifest.json"]
    assert (folder / "frames.u8").stat().st_size == LENGTH * 3 * (3 * 7 * 12 + 6 * 8)


def test_every_part_of_a_video_reads_as_in_the_whole(opened, table):
    cache = opened()
    whole = read_all(cache, table)
    for video, first in enumerate(table.video_offsets[:-1].tolist()):
        for start in range(LENGTH):
            for end in range(start + 1, LENGTH + 1):
                targets = [table.frame(video, t) for t in range(start, end)]
                assert torch.equal(cache.read(first + start, targets), whole[video][start:end])
    with pytest.raises(IndexError, match="frames 4 to 5 are not of one size"):
        cache.read(4, [table.frame(0, 4), table.frame(1, 0)])


def test_each_frame_is_decoded_once_and_later_epochs_and_runs_decode_nothing(
    opened, store, table, monkeypatch
):
    monkeypatch.setattr(cache_file, "RUN", 2)
    cache = opened()
    noted = sorted(line.split() for line in store.log.read_text().splitlines())
    assert noted == sorted([str(f), name] for f, name in enumerate(table.names_F.tolist()))
    first_epoch = read_all(cache, table)
    store.forbidden = True
    for again in (cache, opened()):
        assert all(map(torch.equal, read_all(again, table), first_epoch))


def in_processes(number, store, folder, table):
    """Exit codes of processes that open the cache at the same time."""
    context = multiprocessing.get_context("fork")
    arguments = (store, folder, table, context.Barrier(number))
    processes = [context.Process(target=build, args=arguments) for _ in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def test_two_processes_at_once_make_one_cache(table, store, folder, opened):
    assert in_processes(2, store, folder, table) == [0, 0]
    assert len(store.log.read_text().splitlines()) == len(table.names_F)
    store.forbidden = True
    read_all(opened(), table)
    assert below(folder.parent) == [".test.lock", "test"]


def test_a_killed_build_leaves_nothing_that_is_taken_for_whole(table, store, folder, opened):
    killed = Files(store.root, store.log, killed_at=str(table.names_F[-1]))
    assert in_processes(1, killed, folder, table) == [-signal.SIGKILL]
    (left,) = below(folder)
    assert left.endswith(".part")
    (folder / "frames.u8").touch()  # as if it were killed before the manifest
    frames = read_all(opened(), table)
    assert below(folder) == ["frames.u8", "manifest.json"]
    shutil.rmtree(folder)
    assert all(map(torch.equal, read_all(opened(), table), frames))


def test_a_frame_that_does_not_decode_is_named_and_nothing_is_left(root, folder, opened):
    (root / FRAMES_FOLDER / "B.mp4" / "000002.png").write_bytes(b"text")
    with pytest.raises(InputError, match=r"B.mp4/000002.png .* does not decode"):
        opened()
    assert not below(folder)


def test_frames_written_anew_are_noticed(root, store, table):
    path = root / FRAMES_FOLDER / "A.mp4" / "000001.png"
    seen = [store.identity(table)]
    (root / FRAMES_FOLDER / "A.mp4" / "000002.png").write_bytes(b"text")
    assert store.identity(table) == seen[0], "a later frame of a video does not count"
    path.write_bytes(path.read_bytes() + b"longer")
    seen.append(store.identity(table))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    seen.append(store.identity(table))
    (root / "synthetic.json").write_text("{}")
    seen.append(store.identity(table))
    path.unlink()
    seen.append(store.identity(table))
    shutil.rmtree(root)
    make_frames(root, seed=1)
    seen.append(store.identity(table))
    assert len(set(seen)) == len(seen)


def test_a_cache_of_other_frames_is_refused_with_what_differs(opened, store, table, folder, root):
    opened()
    with pytest.raises(InputError, match=r"size \[12, 12\] instead of \[20, 20\]"):
        opened((20, 20))
    offsets = table.video_offsets.copy()
    offsets[1] += 1
    for other in (
        replace(table, names_F=table.names_F[::-1].copy()),
        replace(table, sizes_F2=table.sizes_F2[:, ::-1].copy()),
        replace(table, video_offsets=offsets),
    ):
        with pytest.raises(InputError, match="have other names, sizes or videos"):
            open_cache(folder, store, other, SIZE, source=store.identity(table))
    with pytest.raises(InputError, match=f"copied anew .*; remove {folder} and it is"):
        open_cache(folder, store, table, SIZE, source="other")


def test_a_broken_manifest_is_refused_with_the_way_out(opened, folder):
    opened()
    for content in ("", "[]", "{}", '{"version": 0}'):
        (folder / "manifest.json").write_text(content)
        with pytest.raises(InputError, match=rf"{folder} .*; remove {folder} and it is made again"):
            opened()


def test_a_cache_cut_short_is_refused_and_is_no_bus_error_while_it_is_read(opened, folder, table):
    cache = opened()
    with (folder / "frames.u8").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match=rf"{folder} .* 1000 instead of 4500; remove"):
        opened()
    with pytest.raises(InputError, match=r"frames.u8 cannot be read \(it ends at byte 1000\)"):
        read_all(cache, table)


def test_something_else_in_its_place_is_never_written_over(opened, folder):
    folder.mkdir(parents=True)
    for name in ("frames.u8", "thesis.txt"):
        (folder / name).write_text("text")
    with pytest.raises(InputError, match=f"{folder} exists and is no frame cache"):
        opened()
    assert below(folder) == ["frames.u8", "thesis.txt"]


def test_too_little_space_is_reported_before_anything_is_decoded(opened, store, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(cache_file.shutil, "disk_usage", lambda path: usage(4499))
    with pytest.raises(InputError, match=r"needs 0\.0 MiB and 0\.0 MiB are free"):
        opened()
    assert not store.log.exists()
    monkeypatch.setattr(cache_file.shutil, "disk_usage", lambda path: usage(4500))
    opened()


def test_a_disk_that_fills_up_is_reported_and_nothing_is_left(opened, folder, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_file.os, "pwrite", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\); free"):
        opened()
    assert not below(folder)


class Videos(torch.utils.data.Dataset):
    def __init__(self, cache, table):
        self.cache, self.table = cache, table

    def __len__(self):
        return len(self.table.lengths)

    def __getitem__(self, video):
        targets = [self.table.frame(video, t) for t in range(LENGTH)]
        return self.cache.read(int(self.table.video_offsets[video]), targets)


def test_a_pickled_cache_and_workers_read_the_same_whatever_is_done_to_what_was_read(
    opened, table, recwarn
):
    cache = opened()
    before = read_all(cache, table)
    read_all(cache, table)[0].zero_()
    assert all(map(torch.equal, read_all(pickle.loads(pickle.dumps(cache)), table), before))
    loader = torch.utils.data.DataLoader(Videos(cache, table), batch_size=None, num_workers=1)
    assert all(map(torch.equal, loader, before))
    del cache
    # A loader warns of its own where cores are few.
    assert not [one for one in recwarn if "DataLoader will create" not in str(one.message)]
