"""The small root and the run of the tests of training."""

from tests.training.conftest import command_line, data_root, finished  # noqa: F401
