"""Predictions of many frames in one Parquet file, which any tool can read and any model write.

A row a predicted pair, in order of video and time, then of the pair's number:

| column | type | |
| --- | --- | --- |
| `video`, `frame` | string | ``001YG.mp4`` and ``001YG.mp4/000089.png``, as in the annotations |
| `width`, `height` | int32 | native size of the frame in pixels |
| `pair` | int32 | from 0 in each frame; null: the frame has no pair, and the rest is null too |
| `person_x1` `_y1` `_x2` `_y2` | float32 | box of the person, two corners in native pixels |
| `object_x1` `_y1` `_x2` `_y2` | float32 | box of the object |
| `object_class`, `object_name` | int16, string | 2 to 36 (1 is a person), and how it is spelt |
| `person_score`, `object_score` | float32 | 0..1 |
| `looking_at` ... `writing_on` | float32 | the 26 relations in the order of the vocabulary, 0..1 |

The rows of a frame stand together. A reader needs `frame`, `pair`, the boxes, `object_class` and
the scores, of any integer and floating type; the rest is for people. The key ``bload_predictions``
of the file's metadata is a JSON object: the version of this format and what made the file.

Files are written part by part (one a rank) and joined row group by row group, so memory does not
grow with the number of frames. F frames, P pairs of a frame, N rows, V = 36 values of a pair.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bload.errors import InputError
from datasets.annotations.vocabulary import OBJECTS, RELATIONS
from datasets.scoring.prediction import FramePrediction

VERSION = 1
METADATA_KEY = b"bload_predictions"
_BOXES = [f"{who}_{corner}" for who in ("person", "object") for corner in ("x1", "y1", "x2", "y2")]
_VALUES = [*_BOXES, "person_score", "object_score", *RELATIONS]
_NEEDED = ["frame", "pair", "object_class", *_VALUES]
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("video", "frame")),
        *((name, pa.int32()) for name in ("width", "height", "pair")),
        *((name, pa.float32()) for name in _BOXES),
        ("object_class", pa.int16()),
        ("object_name", pa.string()),
        *((name, pa.float32()) for name in _VALUES[len(_BOXES) :]),
    ]
)
_ROWS = 1 << 15  # rows that are joined to one group


class NamedFrame(Protocol):
    """What a file says of a frame besides predictions; `FrameTargets` has it."""

    name: str
    size_hw: tuple[int, int]


class PredictionsWriter:
    """The part of a predictions file that one rank writes; `join_parts` makes the file of them.

    As a context: a part that ends in an exception is removed.
    """

    def __init__(self, path: Path | str, rank: int = 0) -> None:
        self._path = _part(path, rank)
        try:
            self._writer = _open_writer(self._path, SCHEMA)
        except OSError as error:
            raise InputError(f"{path} cannot be written ({error}); name another file") from error

    def __enter__(self) -> "PredictionsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._writer.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)

    def write(self, frames: Sequence[NamedFrame], predictions: Sequence[FramePrediction]) -> None:
        """Add frames; those of a video one after another and in order of time."""
        both = zip(frames, predictions, strict=True)
        for _, video in groupby(both, key=lambda pair: _video(pair[0].name)):
            self._writer.write_table(_table(*zip(*video, strict=True)))  # a row group, to sort by


def join_parts(path: Path | str, parts: int, metadata: Mapping[str, Any]) -> None:
    """Make the file of the parts of ranks 0 to `parts` - 1, whole or not at all; remove the parts.

    `metadata` says what made the file: ``checkpoint``, ``split``, ``root``, ``small_boxes``.
    """
    path = Path(path)
    paths = [_part(path, rank) for rank in range(parts)]
    said = json.dumps({"version": VERSION, **metadata})
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        files = [pq.ParquetFile(part) for part in paths]
        groups = []
        for file in files:
            for group in range(file.num_row_groups):
                first = file.read_row_group(group, columns=["frame"])["frame"][0].as_py()
                groups.append(((_video(first), first), file, group))
        groups.sort(key=lambda group: group[0])
        with _open_writer(unfinished, SCHEMA.with_metadata({METADATA_KEY: said})) as writer:
            waiting: list[pa.Table] = []
            for _, file, group in groups:
                waiting.append(file.read_row_group(group))
                if sum(map(len, waiting)) >= _ROWS:
                    writer.write_table(pa.concat_tables(waiting))
                    waiting = []
            if waiting:
                writer.write_table(pa.concat_tables(waiting))
        os.replace(unfinished, path)
    finally:
        for part in (unfinished, *paths):
            part.unlink(missing_ok=True)


def write_predictions(
    path: Path | str,
    frames: Iterable[tuple[NamedFrame, FramePrediction]],
    metadata: Mapping[str, Any],
) -> None:
    """Write a file in one process; the frames of a video come one after another, in order."""
    with PredictionsWriter(path) as writer:
        for _, video in groupby(frames, key=lambda pair: _video(pair[0].name)):
            writer.write(*zip(*video, strict=True))
    join_parts(path, 1, metadata)


def read_metadata(path: Path | str) -> dict[str, Any]:
    """What a file says of itself; empty for a file that another tool wrote.

    Raises `InputError` for a file that is missing, not Parquet, or of another version.
    """
    said = (_open(path).schema_arrow.metadata or {}).get(METADATA_KEY)
    metadata = json.loads(said) if said else {}
    if metadata.get("version", VERSION) != VERSION:
        raise InputError(
            f"{path} is of version {metadata['version']} of the predictions format and this "
            f"program reads version {VERSION}; write the file again"
        )
    return metadata


def read_predictions(path: Path | str) -> Iterator[tuple[str, FramePrediction]]:
    """Frame names and what is predicted of them, in the file's order; ``dict`` of it looks up.

    Raises `InputError` for a file that lacks columns or holds no valid predictions.
    """
    read_metadata(path)
    file = _open(path)
    missing = [name for name in _NEEDED if name not in file.schema_arrow.names]
    if missing:
        raise InputError(
            f"{path} has no column {missing[0]} ({len(missing)} of {len(_NEEDED)} are missing); "
            "the columns are those of datasets/predictions_file.py"
        )
    held: pa.Table | None = None  # the last frame so far, which may go on in the next group
    # By row group: iter_batches keeps what it has read, and so grows with the file.
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=_NEEDED)
        if not len(table):
            continue
        table = table if held is None else pa.concat_tables([held, table])
        names_N = table["frame"].to_numpy()
        last = _first_rows(names_N)[-1]
        yield from _frames(path, table.slice(0, last))
        held = table.slice(last)
    if held is not None:
        yield from _frames(path, held)


def _frames(path: Path | str, table: pa.Table) -> Iterator[tuple[str, FramePrediction]]:
    names_N = table["frame"].to_numpy()
    there_N = table["pair"].is_valid().to_numpy()
    pairs = table.filter(pa.array(there_N))
    values_NV = np.stack([pairs[name].to_numpy() for name in _VALUES], axis=1)
    classes_N = pairs["object_class"].to_numpy()
    if (classes_N == np.round(classes_N)).all():  # pandas makes floats of integers beside nulls
        classes_N = classes_N.astype(np.int64)
    before_N = np.concatenate([[0], np.cumsum(there_N)])  # rows with a pair before each row
    for first, end in pairwise([*_first_rows(names_N), len(names_N)]):
        rows = slice(before_N[first], before_N[end])
        values_PV = values_NV[rows]
        try:
            prediction = FramePrediction(
                person_boxes_P4=values_PV[:, 0:4],
                object_boxes_P4=values_PV[:, 4:8],
                object_classes_P=classes_N[rows],
                person_scores_P=values_PV[:, 8],
                object_scores_P=values_PV[:, 9],
                relation_scores_PR=values_PV[:, 10:],
            )
        except InputError as error:
            raise InputError(f"{path}, frame {names_N[first]}: {error}") from error
        yield str(names_N[first]), prediction


def _first_rows(names_N: np.ndarray) -> list[int]:
    """The row at which each frame begins."""
    if not len(names_N):
        return []
    return [0, *(np.flatnonzero(names_N[1:] != names_N[:-1]) + 1).tolist()]


def _table(frames: Sequence[NamedFrame], predictions: Sequence[FramePrediction]) -> pa.Table:
    """Rows of some frames: a row a pair, and one of nulls for a frame without."""
    names = [frame.name for frame in frames]
    pairs_F = np.array([len(prediction) for prediction in predictions])
    rows_F = np.maximum(pairs_F, 1)
    frame_N = np.repeat(np.arange(len(frames)), rows_F)
    pair_N = np.arange(len(frame_N)) - np.repeat(np.cumsum(rows_F) - rows_F, rows_F)
    there_N = np.repeat(pairs_F > 0, rows_F)
    sizes_F2 = np.array([frame.size_hw for frame in frames])
    classes_N = np.ones(len(frame_N), np.int16)
    classes_N[there_N] = np.concatenate([p.object_classes_P for p in predictions])
    values_NV = np.zeros((len(frame_N), len(_VALUES)), np.float32)
    values_NV[there_N] = np.concatenate([_values(prediction) for prediction in predictions])
    columns = {
        "video": pa.array(np.array([_video(name) for name in names], object)[frame_N]),
        "frame": pa.array(np.array(names, object)[frame_N]),
        "width": pa.array(sizes_F2[frame_N, 1]),
        "height": pa.array(sizes_F2[frame_N, 0]),
        "pair": pa.array(pair_N, mask=~there_N),
        "object_class": pa.array(classes_N, mask=~there_N),
        "object_name": pa.array(np.array(OBJECTS, object)[classes_N], mask=~there_N),
    }
    for column, name in enumerate(_VALUES):
        columns[name] = pa.array(values_NV[:, column], mask=~there_N)
    return pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA)


def _values(prediction: FramePrediction) -> np.ndarray:
    """``(P, 36)`` in the order of `_VALUES`."""
    parts = (
        prediction.person_boxes_P4,
        prediction.object_boxes_P4,
        prediction.person_scores_P[:, None],
        prediction.object_scores_P[:, None],
        prediction.relation_scores_PR,
    )
    return np.concatenate(parts, axis=1, dtype=np.float32, casting="same_kind")


def _open(path: Path | str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{path} cannot be read as a Parquet file ({type(error).__name__}); name a file that "
            "eval.py predictions=FILE or another model wrote"
        ) from error


def _open_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    # Floats hardly repeat, so dictionaries of them only cost time.
    return pq.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=["video", "frame", "object_name"]
    )


def _part(path: Path | str, rank: int) -> Path:
    return Path(path).with_name(f"{Path(path).name}.rank{rank}.part")


def _video(name: str) -> str:
    return name.partition("/")[0]
