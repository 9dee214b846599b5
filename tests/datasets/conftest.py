"""One small synthetic root for the tests of the data."""

from pathlib import Path

import pytest

from datasets.synthetic import World, ensure

SMALL = {"train_videos": 8, "test_videos": 4, "image_size": 64, "seed": 3, "drop_rate": 0.1}


@pytest.fixture(scope="session")
def small_world() -> World:
    return World(**SMALL)


@pytest.fixture(scope="session")
def small_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure(tmp_path_factory.mktemp("synthetic") / "root", progress=False, **SMALL)
