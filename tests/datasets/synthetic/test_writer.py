"""Roots: Action Genome's files, the same bytes for the same knobs, whole or not there."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from bload.errors import InputError
from datasets.synthetic import writer
from datasets.synthetic.writer import make_if_missing
from tests.datasets.box_root import open_root

VIDEOS = {"train_videos": 2, "test_videos": 1, "validation_videos": 1, "final_videos": 1}
TINY = {**VIDEOS, "image_size": 32}


def contents(root: Path) -> dict[Path, bytes]:
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_same_knobs_write_the_same_bytes(tmp_path):
    one, two = (contents(make_if_missing(tmp_path / name, **TINY)) for name in ("one", "two"))
    assert one == two != contents(make_if_missing(tmp_path / "three", **TINY, seed=1))


def test_a_root_is_made_once_and_refuses_other_knobs_with_both_values(tmp_path, monkeypatch):
    root = make_if_missing(tmp_path / "deep" / "root", **TINY)
    monkeypatch.setattr(writer, "paint", None)
    assert make_if_missing(root, **TINY) == root
    with pytest.raises(InputError, match=r"made differently: seed was 0 and is 4"):
        make_if_missing(root, **TINY, seed=4)


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "annotations").mkdir()
    with pytest.raises(InputError, match=f"{tmp_path} .* not empty"):
        make_if_missing(tmp_path, **TINY)
    assert [child.name for child in tmp_path.iterdir()] == ["annotations"]


def test_an_interrupted_make_leaves_no_root_and_the_next_one_completes(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(writer, "paint", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make_if_missing(tmp_path / "root", **TINY)
    assert [child.name for child in tmp_path.iterdir() if child.is_dir()] == [".root.partial"]
    root = make_if_missing(tmp_path / "root", **TINY)
    assert not (tmp_path / ".root.partial").exists()
    assert len(open_root(root, "train", (32, 32)).videos) == 2
