"""Files of runs are read with their types checked, so that whatever uses them can rely on these."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LARGEST = 1e30
"""No figure is larger; squares and sums of such are still floats."""
DEEPEST = 20
"""Objects and lists that may stand in one another."""
LEAST = {
    **{"t_max": 1, "padding": 0, "deleted": 0, "processed": 1, "frames": 1},
    **{"epochs": 1, "epoch_seconds": 1e-9, "train_seconds": 0, "with/recall@20": 0},
}
"""Figures that the summary of a run must hold, and the least that they can be."""
GROUPS = ("loader", "dataset", "model", "train")
"""Groups that the config of a run must have."""
NEEDED = {"loader.name": str, "train.seed": int}
OPTIONAL = {"dataset.train_videos": int, "train.slots": int | None}
"""Keys of a config and their types."""
TEXTS = ("what", "loader", "shape", "ended", "expected", "says")
FIGURES = (
    *("longest", "t_max", "frames", "padding", "deleted", "processed", "blocks"),
    *("lower_bound_padding", "plan_seconds", "epoch_seconds", "seconds"),
)
"""Keys of rows that are texts, and figures from 0."""


class UnreadableError(Exception):
    """A file that does not hold what it should."""


def is_figure(value: Any) -> bool:
    """A number of a size that can be calculated with."""
    return isinstance(value, int | float) and abs(value) <= LARGEST


def read_object(path: Path) -> dict[str, Any]:
    """A json file that holds an object."""
    try:
        content = json.loads(path.read_text())
    except RecursionError:
        raise UnreadableError(f"{path.name} is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise UnreadableError(f"{path.name} holds no json object")
    if _is_deep(content):
        raise UnreadableError(f"{path.name} is nested too deeply")
    return content


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of json lines; half a line, where a process was killed, is left out."""
    try:
        texts = path.read_text(errors="replace").splitlines() if path.exists() else []
    except OSError as error:
        raise UnreadableError(f"{path.name} cannot be read: {error}") from error
    lines = []
    for text in texts:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and not _is_deep(line):
            lines.append(line)
    return lines


def check_summary(summary: dict[str, Any]) -> None:
    lacking = [key for key in LEAST if not is_figure(summary.get(key))]
    if lacking:
        raise UnreadableError(f"summary.json lacks {', '.join(lacking)}")
    for key, least in LEAST.items():
        if summary[key] < least:
            raise UnreadableError(f"summary.json has {key} {summary[key]}")


def check_config(config: dict[str, Any]) -> None:
    without = [group for group in GROUPS if not isinstance(config.get(group), dict)]
    if without:
        raise UnreadableError(f"config.json lacks {', '.join(without)}")
    for name, kind in {**NEEDED, **OPTIONAL}.items():
        group, _, key = name.partition(".")
        if key not in config[group]:
            if name in NEEDED:
                raise UnreadableError(f"config.json lacks {name}")
            continue
        value = config[group][key]
        if not isinstance(value, kind) or (isinstance(value, int) and not is_figure(value)):
            raise UnreadableError(f"config.json has {name} {_short(value)}")


def checked_rows(content: dict[str, Any], name: str) -> tuple[dict[str, Any], ...]:
    """The rows of an experiment that is rows; keys may be absent or null."""
    rows = content.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableError(f"{name} has no list of rows")
    for number, row in enumerate(rows, 1):
        for key, value in row.items():
            wrong = key in TEXTS and not isinstance(value, str | None)
            if key in FIGURES and value is not None:
                wrong = not isinstance(value, int | float) or value < 0
            if wrong:
                raise UnreadableError(f"{name} has {key} {_short(value)} in row {number}")
    return tuple(rows)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _is_deep(content: Any) -> bool:
    level: Iterable[Any] = [content]
    for _ in range(DEEPEST):
        level = [child for value in level for child in _children(value)]
    return bool(level)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
