"""One CSV with a row for every finished run, safe with several jobs at once."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pandas as pd


def upsert_result(path: Path, row: dict[str, Any]) -> None:
    """Put the row of a run into the CSV, in place of an earlier one of the same ``run``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new = pd.DataFrame([row])
        if path.exists():
            # As text: rows of other runs stay as they are, to the last digit.
            old = pd.read_csv(path, dtype=str, keep_default_na=False)
            new = pd.concat([old[old["run"] != row["run"]], new], ignore_index=True)
        part = path.with_suffix(".part")
        new.to_csv(part, index=False)
        os.replace(part, path)
