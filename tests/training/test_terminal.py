"""A bar is drawn on every terminal, also on one that does not know its size."""

import os
import pty
import subprocess
import sys

from tests.training.jobs import REPOSITORY

BAR = """
import training
from tqdm import tqdm
for _ in tqdm(range(3), mininterval=0, disable=None):
    pass
"""


def test_a_terminal_of_no_columns_shows_the_bar():
    ours, theirs = pty.openpty()  # of 0 columns and 0 lines
    try:
        assert os.get_terminal_size(theirs) == (0, 0)
        subprocess.run([sys.executable, "-c", BAR], cwd=REPOSITORY, stderr=theirs, check=True)
        assert b"3/3" in os.read(ours, 10**5)
    finally:
        os.close(ours)
        os.close(theirs)
