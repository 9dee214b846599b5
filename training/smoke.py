"""The end of ``experiment=smoke``: one line, green on a terminal."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bload.errors import InputError

SMOKE = "smoke"
"""Name of the experiment."""


def all_right(summary: Mapping[str, Any], made: Mapping[str, Path]) -> str:
    """Return the line with which a smoke run ends; an empty text for other runs.

    Args:
        summary: of the run.
        made: what was drawn of it and is there -> file.

    Raises:
        InputError: something is not there that a run makes.
    """
    if summary["experiment"] != SMOKE:
        return ""
    if lacking := {"picture", "report"} - made.keys():
        raise InputError(f"the run has no {' and no '.join(sorted(lacking))}; why stands above")
    text = (
        f"smoke: all right: data, {summary['steps']:.0f} steps, {summary['eval_frames']:,.0f} "
        "frames evaluated, a picture"
    )
    green = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return f"\n\033[32m{text}\033[0m\n" if green else f"\n{text}\n"
