"""A file that is written whole, or not at all."""

import errno
import os
from unittest.mock import Mock

import pytest

from datasets.write_whole import write_whole


@pytest.mark.parametrize("content", [b"newer", "newer", lambda file: file.write(b"newer")])
def test_after_a_failure_the_old_file_is_there(content, tmp_path, monkeypatch):
    path, previous = tmp_path / "last.pt", tmp_path / "previous.pt"
    path.write_text("old")
    previous.write_text("older")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
    with pytest.raises(OSError, match="no space"):
        write_whole(path, content, previous)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "last.pt": "old",
        "previous.pt": "older",
    }


@pytest.mark.parametrize("content", ["new", lambda file: file.write(b"new")])
def test_a_planted_link_is_not_followed(content, tmp_path):
    (tmp_path / "theirs").write_text("old")
    (tmp_path / "report.html.part").symlink_to("theirs")
    write_whole(tmp_path / "report.html", content)
    assert (tmp_path / "report.html").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "theirs"]
    assert (tmp_path / "theirs").read_text() == "old"
