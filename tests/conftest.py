"""Ctrl-C reaches the tests and the commands that they start, and all of them use one thread.

A shell has its background jobs ignore SIGINT, and what they start inherits that. Networks and
tensors here are tiny, so a second thread would only be waited for.
"""

import os
import signal

import pytest
import torch

from tests.installation import build, copy_checkout

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["OMP_NUM_THREADS"] = "1"  # for the commands
torch.set_num_threads(1)


LONGEST = (
    "ranks",
    "test_trainers.py",
    "test_resume.py",
    "test_stopping.py",
    "test_transformers.py",
)
"""Groups that begin first, so that none of them runs at the end while other processes idle."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist would begin groups of few tests last


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file, and those that share two ranks, in one process (loadgroup)."""
    groups = {}
    for item in items:
        shares_ranks = "two_ranks" in getattr(item, "fixturenames", ())
        groups[item] = "ranks" if shares_ranks else item.path.name
        item.add_marker(pytest.mark.xdist_group(groups[item]))
    begin = {group: place for place, group in enumerate(LONGEST)}
    items.sort(key=lambda item: begin.get(groups[item], len(LONGEST)))


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory):
    """Two ranks in a process group, for the tests of a process."""
    from tests.several_ranks import start_ranks

    yield from start_ranks(tmp_path_factory.mktemp("ranks"), 2)


@pytest.fixture
def three_ranks(tmp_path):
    from tests.several_ranks import start_ranks

    yield from start_ranks(tmp_path, 3)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A copy of this checkout, to build and to install from."""
    return copy_checkout(tmp_path_factory.mktemp("copied") / "checkout")


@pytest.fixture(scope="session")
def wheel(checkout, tmp_path_factory):
    """The wheel of this checkout."""
    return build(checkout, "wheel", tmp_path_factory.mktemp("wheel"))
