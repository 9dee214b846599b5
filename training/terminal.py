"""Terminals that do not know their size, such as those of ``docker run -t``."""

import os
import sys
from contextlib import suppress


def give_bars_room() -> None:
    """Have tqdm, if it is still to be imported, draw on a terminal of 0 columns or lines too."""
    with suppress(OSError, AttributeError):  # it is no terminal, or there is none
        if 0 in os.get_terminal_size(sys.stderr.fileno()):
            os.environ.setdefault("TQDM_NCOLS", "79")
            os.environ.setdefault("TQDM_NROWS", "23")
