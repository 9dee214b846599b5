"""Ctrl-C reaches the tests and the commands that they start, and all of them use one thread.

A shell has its background jobs ignore SIGINT, and what they start inherits that. Networks and
tensors here are tiny, so a second thread would only be waited for.
"""

import gc
import os
import signal

import pytest
import torch

from bload import BlockLoader, from_dataset
from tests.installation import build, copy_checkout

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["OMP_NUM_THREADS"] = "1"  # for the commands
torch.set_num_threads(1)


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file, and those that share two ranks, in one process (loadgroup)."""
    items.sort(key=lambda item: item.path.parent.name in ("models", "bload"))  # short ones last
    needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    for item in items:
        shares_ranks = "two_ranks" in getattr(item, "fixturenames", ())
        if item.get_closest_marker("gpu"):
            item.add_marker(needs_a_gpu)
        item.add_marker(pytest.mark.xdist_group("ranks" if shares_ranks else item.path.name))


def pytest_collection_finish() -> None:
    """Leave what is imported out of garbage collections, of which one would take half a second."""
    gc.freeze()


@pytest.fixture
def batch():
    """|a a a b b|c c c c .|, or in another order, of width 8."""
    source = from_dataset([torch.randn(count, 8) for count in (3, 2, 4)], length=len)
    (batch,) = BlockLoader(source, t_max=5, batch_slots=10)
    return batch


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
