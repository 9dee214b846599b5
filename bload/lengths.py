"""Lengths of sequences: checked, of Action Genome, or in a file."""

import csv
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bload.errors import InputError, check_choice

CHECKED_AT_A_TIME = 2**20
"""Lengths that are checked and hashed at a time."""


def check_lengths(lengths: ArrayLike, names: Sequence[str] | None = None) -> np.ndarray:
    """Return the lengths as int64 ``(sequences,)``; raise InputError for the first invalid one."""
    try:
        array = np.asarray(np.ma.filled(lengths, 0))
    except (ValueError, TypeError, RuntimeError) as error:  # such as nested lists
        raise InputError(f"no lengths: {error}; give a list of whole numbers") from error
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        found = f"have shape {array.shape} and dtype {array.dtype}" if array.size else "are empty"
        raise InputError(f"the lengths {found}; give a list of whole numbers, at least one")
    if names is not None and len(names) != array.size:
        raise InputError(f"there are {len(names)} names for {array.size} lengths; give one each")
    with np.errstate(invalid="ignore"):  # NaN and values beyond int64 fail the test below
        whole = array.astype(np.int64)
    bad = np.flatnonzero((whole < 1) | (whole != array))
    if len(bad):
        s = int(bad[0])
        raise InputError(
            f"sequence {s if names is None else names[s]} has length {array[s]:.15g}; lengths are "
            "whole numbers from 1 on: fix it or leave the sequence out"
        )
    return whole


class FrozenLengths(NamedTuple):
    """Frames of every sequence, ``(sequences,)``, which nobody changes, their sum and digest."""

    lengths: np.ndarray
    frames: int
    digest: str


def freeze_lengths(lengths: ArrayLike, names: Sequence[str] | None = None) -> FrozenLengths:
    """Check lengths piece by piece.

    A memory map of integers is returned as it is; all else is copied and made read-only.
    """
    is_kept = isinstance(lengths, np.ndarray) and lengths.dtype.kind in "iu" and lengths.ndim == 1
    is_kept = is_kept and (names is None or len(names) == np.size(lengths))
    array = np.asanyarray(lengths) if is_kept else check_lengths(lengths, names)
    if getattr(array, "_mmap", None) is None:  # a copy of a memory map is none
        if is_kept:  # also if it is read-only, since its owner may change that
            array = array.copy()
        array.flags.writeable = False
    labels: Any = range(len(array)) if names is None else names
    digest, frames = hashlib.sha256(), 0
    for first in range(0, max(len(array), 1), CHECKED_AT_A_TIME):
        piece = slice(first, first + CHECKED_AT_A_TIME)
        whole = check_lengths(array[piece], labels[piece])
        digest.update(whole.tobytes())
        frames += int(whole.sum())
    return FrozenLengths(array, frames, digest.hexdigest()[:16])


def action_genome_lengths(split: str = "train") -> np.ndarray:
    """Return the annotated frames of every video of Action Genome, int64 ``(videos,)``, sorted.

    Args:
        split: ``train`` (7,464 videos, 166,785 frames, 3 to 94) or ``test`` (1,737 videos, 54,371
            frames, 3 to 121).

    Source: counted from the frame lists ``datasets/AG/ag_{train,test}_id.pkl`` of
    github.com/rlqja1107/NL-VSGG at commit f9785e6, which leave out videos with fewer than 3 frames.
    """
    check_choice("split", split, ("train", "test"))
    text = files("bload").joinpath("data/action_genome_lengths.json").read_text()
    counts = {int(length): number for length, number in json.loads(text)[split].items()}
    return np.repeat(np.fromiter(counts, np.int64), np.fromiter(counts.values(), np.int64))


def read_lengths(path: str | Path) -> tuple[np.ndarray, list[str] | None]:
    """Read one length per sequence, int64 ``(sequences,)``, and the name of each in messages.

    The suffix gives the format: ``.npy`` (1-d array); ``.csv`` and ``.tsv`` (a column named length,
    or a single column); anything else is text with one number per line and comments after ``#``.

    Raises:
        InputError: the file is missing, is not in its format, or holds a length below 1.
    """
    path = Path(path)
    try:
        if path.suffix.lower() == ".npy":
            return check_lengths(np.load(path, allow_pickle=False)), None
        lines = path.read_text("utf-8-sig").splitlines()  # a byte order mark may begin it
        if path.suffix.lower() not in (".csv", ".tsv"):
            lines = [line.split("#")[0].strip() for line in lines]
        lengths, names = _read_column(lines)
        return check_lengths(lengths, names), names
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read lengths from {path}: {error}") from error


def _read_column(lines: list[str]) -> tuple[list[float], list[str]]:
    """Read the column of the lengths, and the line of each; a single column may have no title."""
    reader = csv.reader(lines, delimiter=max(",;\t", key="".join(lines[:1]).count))
    rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    titles = [title.lower() for title in rows[0][1]] if rows else []
    column = 0
    if len(titles) > 1 or (titles and titles[0][:1].isalpha() and titles[0] not in ("nan", "inf")):
        if len(titles) > 1 and "length" not in titles:
            raise InputError(f"the columns are {', '.join(titles):.99}; name one of them 'length'")
        column = titles.index("length") if "length" in titles else 0
        rows = rows[1:]
    values = []
    for line, row in rows:
        try:
            values.append(float(row[column]))
        except (ValueError, IndexError):
            raise InputError(f"line {line} has {row!r}; give a length there") from None
    return values, [f"on line {line}" for line, _ in rows]
