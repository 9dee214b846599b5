"""Reading what wandb wrote offline: records in a log of LevelDB's format, after wandb's header."""

import json
import struct
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER = 2**15, 7
"""Bytes of a block of the log, and of what stands before the log and before each of its pieces."""
LAST_PIECES = (1, 4)
"""Types of pieces that end a record: a whole one, and the last of several."""


def records(file: Path) -> list[Record]:
    """The records of a ``.wandb`` file, in their order."""
    content = file.read_bytes()
    assert content[:4] == b":W&B"
    found, held, at = [], b"", HEADER
    while at + HEADER <= len(content):
        if BLOCK - at % BLOCK < HEADER:  # no piece begins in the last bytes of a block
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack("<IHB", content[at : at + HEADER])
        held += content[at + HEADER : at + HEADER + size]
        at += HEADER + size
        if kind in LAST_PIECES:
            found.append(Record.FromString(held))
            held = b""
    return found


class OfflineRun:
    """A folder of wandb's, read back.

    Attributes: `run`, the record of its names; `config`; `rows` of the history; `axes`, the step
    metric of each defined metric.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (file,) = folder.glob("*.wandb")
        every = records(file)
        self.run = next(record.run for record in every if record.HasField("run"))
        self.config = _values(self.run.config.update)
        self.rows = [_values(each.history.item) for each in every if each.HasField("history")]
        metrics = [each.metric for each in every if each.HasField("metric")]
        self.axes = {each.name or each.glob_name: each.step_metric for each in metrics}

    def column(self, key: str) -> list[Any]:
        return [row[key] for row in self.rows if key in row]

    def media(self, key: str) -> list[Path]:
        """The files logged under a key."""
        return [self.folder / "files" / path for path in self.column(f"{key}/path")]


def _values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
