"""The small root, run and pair of ranks of the tests of training."""

from tests.training.conftest import (  # noqa: F401
    command_line,
    data_root,
    finished,
    two_ranks,
)
