"""Ctrl-C reaches the tests, and the commands that they start, even from a background job.

A shell has its background jobs ignore SIGINT, and what they start inherits that.
"""

import signal

import pytest

from tests.installation import build, copy_checkout

signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A copy of this checkout, to build and to install from."""
    return copy_checkout(tmp_path_factory.mktemp("copied") / "checkout")


@pytest.fixture(scope="session")
def wheel(checkout, tmp_path_factory):
    """The wheel of this checkout."""
    return build(checkout, "wheel", tmp_path_factory.mktemp("wheel"))
