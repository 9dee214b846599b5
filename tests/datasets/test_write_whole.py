"""A file that is written whole, or not at all."""

import errno
import os
import re
from unittest.mock import Mock

import pytest

from bload.errors import InputError
from datasets.write_whole import write_whole


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("content", [b"newer", "newer", lambda part: part.write_text("newer")])
def test_a_full_disk_is_named_and_the_old_file_stays(content, number, tmp_path, monkeypatch):
    path, previous = tmp_path / "last.pt", tmp_path / "previous.pt"
    path.write_text("old")
    previous.write_text("older")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(number, "no space")))
    needed = "" if callable(content) else "5 bytes are needed and "
    says = rf"{re.escape(str(path))} cannot be written: no space .*, {needed}[\d,]+ bytes are free;"
    with pytest.raises(InputError, match=says):
        write_whole(path, content, previous)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "last.pt": "old",
        "previous.pt": "older",
    }


def test_another_error_of_the_disk_is_not_called_a_full_one(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output error"):
        write_whole(tmp_path / "last.pt", b"newer")
    assert not [*tmp_path.iterdir()]
