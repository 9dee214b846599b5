"""The record of `experiments.gpu_card`: parts that stop in time, and fail alone."""

import json
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bload.errors import InputError
from datasets.write_whole import write_whole

Row = dict[str, Any]
Unit = tuple[str, Callable[[], list[Row]]]
"""What a part does between two looks at the clock: its name, and a function that returns rows.

A row with ``"problem"``, a sentence, says that something is not as it should be.
"""


def run_part(
    units: Callable[[], Sequence[Unit]], until: float, tidy: Callable[[], None]
) -> dict[str, Any]:
    """Run the units of a part, none of which begins after `until`, by `time.monotonic`.

    `tidy` is called after each of them.

    Returns:
        ``seconds``; ``rows`` of all units; ``failed``, a sentence for each unit that ended with an
        error or found a problem; ``left_out``, the names of those for which no time was left.
    """
    began = time.monotonic()
    rows: list[Row] = []
    failed, left_out = [], []
    try:
        planned = units()
    except Exception as error:
        planned = []
        failed.append(_sentence(error))
    for name, unit in planned:
        if time.monotonic() > until:
            left_out.append(name)
            continue
        print(f"  {name}", flush=True)
        try:
            found = unit()
        except Exception as error:  # the others go on
            failed.append(f"{name}: {_sentence(error)}")
            found = []
        tidy()
        rows += found
        failed += [f"{name}: {row['problem']}" for row in found if "problem" in row]
    seconds = round(time.monotonic() - began, 1)
    return {"seconds": seconds, "rows": rows, "failed": failed, "left_out": left_out}


def _sentence(error: Exception) -> str:
    traceback.print_exception(error)
    said = f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:500]


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write a record over the one that is there; half of it is never seen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(record, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a record.

    Raises:
        InputError: there is none, or it is another file.
    """
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); give a file of gpu_card") from error
    if not isinstance(record, dict) or "parts" not in record:
        raise InputError(f"{path} has no parts; give a file that gpu_card has written")
    return record
