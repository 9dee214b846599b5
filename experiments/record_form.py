"""What ``experiment.json`` holds, as it is written now and as it was before.

    {"name", "jobs": [{"run", "overrides"}],
     "sweeps": [{"command", "machine", "versions", "git", "threads", "started", "ended", "runs"}]}

A sweep is one command; `runs` names those that it trained, not those that it found finished, and
`ended` is null until it ends.
"""

from datetime import UTC, datetime
from typing import Any

KEYS = ("command", "machine", "versions", "git", "threads", "started", "ended")


def now() -> str:
    """The time as records have it: UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def sweeps_of(record: dict[str, Any]) -> Any:
    """The sweeps of a record, as it has them; of a flat record, which is a single one, a list.

    A flat record keeps the last of several commands alone, so its `runs` is None: not known.
    """
    if "sweeps" in record:
        return record["sweeps"]
    if not any(record.get(key) for key in KEYS):
        return []
    sweep = {key: record.get(key) for key in KEYS}
    sweep["started"] = record.get("started", record.get("date"))
    return [{**sweep, "runs": None}]
