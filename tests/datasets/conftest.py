"""One small synthetic root for the tests of the data, and one made of videos."""

import shutil
from pathlib import Path

import pytest

from datasets.prepare.extract import prepare
from datasets.synthetic.world import World
from datasets.synthetic.writer import make_if_missing
from tests.video_root import make_video_root

SMALL = {"train_videos": 8, "test_videos": 4, "validation_videos": 1, "final_videos": 1}
SMALL |= {"image_size": 64, "seed": 3, "drop_rate": 0.1}


@pytest.fixture(scope="session")
def small_world() -> World:
    return World(**SMALL)


@pytest.fixture(scope="session")
def small_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_if_missing(tmp_path_factory.mktemp("synthetic") / "root", **SMALL)


@pytest.fixture(scope="session")
def downloaded(tmp_path_factory) -> Path:
    return make_video_root(tmp_path_factory.mktemp("downloaded") / "root")


@pytest.fixture
def root(downloaded, tmp_path) -> Path:
    """A root of one's own with videos and annotations."""
    return shutil.copytree(downloaded, tmp_path / "root")


@pytest.fixture(scope="session")
def prepared(downloaded, tmp_path_factory) -> Path:
    """The root with its frames, as a run without options leaves it."""
    root = tmp_path_factory.mktemp("prepared") / "root"
    shutil.copytree(downloaded, root)
    prepare(root, workers=2)
    return root


@pytest.fixture
def done(prepared, tmp_path) -> Path:
    """A root of one's own with frames too."""
    return shutil.copytree(prepared, tmp_path / "done")
