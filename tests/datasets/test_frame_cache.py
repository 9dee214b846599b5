import errno
import multiprocessing
import os
import pickle
import shutil
import signal
from collections import namedtuple
from dataclasses import replace

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as transforms

from bload.errors import InputError
from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames import cache_writer
from datasets.frames.cache import open_cache
from datasets.frames.cache_layout import runs
from datasets.frames.fitting import fit
from datasets.frames.identity import frames_identity
from tests.datasets.cache_making import LENGTH, SIZES, Files, build, make_frames, read_all

SIZE = (12, 12)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def table(root):
    return make_frames(root)


@pytest.fixture
def store(root, tmp_path):
    return Files(root, tmp_path / "log")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "test"


@pytest.fixture
def opened(root, table, store, folder):
    """Opens the cache as a run would."""
    return lambda size_hw=SIZE, **more: open_cache(
        folder, store, table, size_hw, source=frames_identity(root, table), **more
    )


def test_cached_frames_are_the_decoded_ones_resized(opened, store, table):
    cache = opened()
    for decoded_T3hw, cached_T3hw in zip(
        read_all(store, table), read_all(cache, table), strict=True
    ):
        size_hw = cached_T3hw.shape[2:]
        expected_T3hw = decoded_T3hw
        if size_hw != decoded_T3hw.shape[2:]:
            expected_T3hw = transforms.resize(decoded_T3hw, list(size_hw), antialias=True)
        torch.testing.assert_close(cached_T3hw, expected_T3hw, rtol=0, atol=0)


def test_frames_fit_into_the_size_and_small_ones_do_not_grow(opened, table):
    cache = opened()
    assert [cache.stored_size(size) for size in SIZES.values()] == [
        (7, 12),
        (12, 7),
        (6, 8),
        (7, 12),
    ]
    for frames_T3hw, size_hw in zip(read_all(cache, table), SIZES.values(), strict=True):
        assert frames_T3hw.shape == (LENGTH, 3, *cache.stored_size(size_hw))
    assert cache.stored_size((24, 40)) == fit((24, 40), SIZE)


def test_every_part_of_a_video_reads_as_in_the_whole(opened, table):
    cache = opened()
    whole = read_all(cache, table)
    for video, first in enumerate(table.video_offsets[:-1].tolist()):
        for start in range(LENGTH):
            for end in range(start + 1, LENGTH + 1):
                targets = [table.frame(video, t) for t in range(start, end)]
                assert torch.equal(cache.read(first + start, targets), whole[video][start:end])


def test_the_file_has_no_byte_but_frames(opened, folder):
    opened()
    assert sorted(os.listdir(folder)) == ["frames.u8", "manifest.json"]
    assert (folder / "frames.u8").stat().st_size == LENGTH * 3 * (3 * 7 * 12 + 6 * 8)


def test_the_second_epoch_and_the_second_run_decode_nothing(opened, store, table):
    cache = opened()
    first_epoch = read_all(cache, table)
    store.forbidden = True
    for again in (cache, opened()):
        assert all(map(torch.equal, read_all(again, table), first_epoch))


def test_each_frame_is_decoded_once(opened, store, table):
    opened(workers=3)
    noted = sorted(line.split() for line in store.log.read_text().splitlines())
    assert noted == sorted([str(f), name] for f, name in enumerate(table.names_F.tolist()))


def test_two_processes_at_once_make_one_cache(table, store, folder, opened):
    assert in_processes(2, store, folder, table) == [0, 0]
    assert len(store.log.read_text().splitlines()) == len(table.names_F)
    store.forbidden = True
    read_all(opened(), table)
    assert sorted(os.listdir(folder.parent)) == [".test.lock", "test"]


def test_a_killed_build_leaves_nothing_that_is_taken_for_whole(table, store, folder, opened):
    last = str(table.names_F[-1])
    assert in_processes(1, replace(store, killed_at=last), folder, table) == [-signal.SIGKILL]
    assert not folder.exists()
    assert (folder.parent / ".test.partial").exists()
    frames = read_all(opened(), table)
    assert not (folder.parent / ".test.partial").exists()
    shutil.rmtree(folder)
    assert all(map(torch.equal, read_all(opened(), table), frames))


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


def test_a_frame_that_does_not_decode_is_named_and_nothing_is_left(root, folder, opened):
    path = root / FRAMES_FOLDER / "B.mp4" / "000002.png"
    path.write_bytes(b"text")
    with pytest.raises(InputError, match=r"B.mp4/000002.png .* does not decode"):
        opened()
    assert os.listdir(folder.parent) == [".test.lock"]


@pytest.mark.parametrize("change", ["pixels", "rewritten", "manifest", "gone"])
def test_frames_written_anew_are_noticed(root, table, opened, folder, change):
    opened()
    path = root / FRAMES_FOLDER / "A.mp4" / "000001.png"
    if change == "pixels":
        shutil.rmtree(root)
        make_frames(root, seed=1)
    elif change == "rewritten":
        path.write_bytes(path.read_bytes())
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    elif change == "manifest":
        (root / "synthetic.json").write_text("{}")
    else:
        path.unlink()
    with pytest.raises(InputError, match=f"written or copied anew .* remove {folder} and it is"):
        opened()


def test_a_later_frame_replaced_by_hand_is_not_noticed(root, opened):
    opened()
    path = root / FRAMES_FOLDER / "A.mp4" / "000002.png"
    path.write_bytes(b"text")
    opened()


def test_a_cache_of_another_size_or_of_other_videos_is_refused(opened, store, table, folder, root):
    opened()
    with pytest.raises(InputError, match=r"within \[12, 12\] pixels and not \[20, 20\]"):
        opened((20, 20))
    offsets = table.video_offsets.copy()
    offsets[1] += 1
    for other in (
        replace(table, names_F=table.names_F[::-1].copy()),
        replace(table, sizes_F2=table.sizes_F2[:, ::-1].copy()),
        replace(table, video_offsets=offsets),
    ):
        with pytest.raises(InputError, match="have other names, sizes or videos"):
            open_cache(folder, store, other, SIZE, source=frames_identity(root, other))


def test_a_cache_cut_short_is_refused(opened, folder):
    opened()
    with (folder / "frames.u8").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match=rf"{folder} has 1000 bytes of frames and not .* remove"):
        opened()


def test_a_cache_cut_short_while_it_is_read_is_told_and_not_a_bus_error(opened, folder, table):
    cache = opened()
    with (folder / "frames.u8").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match=r"frames.u8 cannot be read \(it ends at byte 1000\)"):
        read_all(cache, table)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 0}'])
def test_a_broken_manifest_is_refused_with_the_way_out(opened, folder, content):
    opened()
    (folder / "manifest.json").write_text(content)
    with pytest.raises(InputError, match=rf"{folder} .*; remove {folder} and it is made again"):
        opened()


def test_something_else_in_its_place_is_never_written_over(opened, folder):
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("text")
    with pytest.raises(InputError, match=f"{folder} exists and is no frame cache"):
        opened()
    assert os.listdir(folder) == ["thesis.txt"]


def test_too_little_space_is_told_before_anything_is_decoded(opened, store, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(cache_writer.shutil, "disk_usage", lambda path: usage(4499))
    with pytest.raises(InputError, match=r"needs 0\.0 MiB and 0\.0 MiB are free"):
        opened()
    assert not store.log.exists()
    monkeypatch.setattr(cache_writer.shutil, "disk_usage", lambda path: usage(4500))
    opened()


def test_a_disk_that_fills_up_is_told_and_nothing_is_left(opened, folder, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cache_writer.os, "pwrite", full)
        with pytest.raises(
            InputError, match=r"cannot be written \(No space left on device\); free"
        ):
            opened()
    assert os.listdir(folder.parent) == [".test.lock"]


def test_a_pickled_cache_and_workers_of_a_loader_read_the_same(opened, table, recwarn):
    cache = opened()
    before = read_all(cache, table)
    assert all(map(torch.equal, read_all(pickle.loads(pickle.dumps(cache)), table), before))
    loader = torch.utils.data.DataLoader(Videos(cache, table), batch_size=None, num_workers=2)
    assert all(map(torch.equal, loader, before))
    del cache
    # A loader warns of its own where cores are few.
    assert not [one for one in recwarn if "DataLoader will create" not in str(one.message)]


class Videos(torch.utils.data.Dataset):
    def __init__(self, cache, table):
        self.cache, self.table = cache, table

    def __len__(self):
        return len(self.table.lengths)

    def __getitem__(self, video):
        targets = [self.table.frame(video, t) for t in range(LENGTH)]
        return self.cache.read(int(self.table.video_offsets[video]), targets)


def test_what_is_read_may_be_written_without_changing_the_cache(opened, table):
    cache = opened()
    first = read_all(cache, table)
    changed = read_all(cache, table)
    changed[0].zero_()
    assert all(map(torch.equal, read_all(cache, table), first))


def test_frames_of_two_sizes_are_not_read_at_once(opened, table):
    cache = opened()
    with pytest.raises(IndexError, match="frames 4 to 5 are not of one size"):
        cache.read(4, [table.frame(0, 4), table.frame(1, 0)])


def test_runs_hold_every_frame_once_in_one_size(table):
    sizes_F2 = table.sizes_F2.copy()
    sizes_F2[2] = (3, 3)
    mixed = replace(table, sizes_F2=sizes_F2)
    seen = []
    for video, first, end in runs(mixed, longest=2):
        start = int(mixed.video_offsets[video])
        assert 1 <= end - first <= 2
        assert len(np.unique(sizes_F2[start + first : start + end], axis=0)) == 1
        seen += range(start + first, start + end)
    assert seen == list(range(len(table.names_F)))
