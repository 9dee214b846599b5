import shutil
from pathlib import Path

import pytest


@pytest.fixture
def root(downloaded, tmp_path) -> Path:
    """A root of one's own with videos and annotations."""
    return shutil.copytree(downloaded, tmp_path / "root")
