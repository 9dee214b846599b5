"""Predictions of many frames in one Parquet file, which any tool can read and any model write.

It has a row per predicted pair, in order of video, time and number of the pair, in the columns of
`SCHEMA`, which docs/evaluation.md explains. A frame without a pair has one row, of nulls from
`pair` on. The key ``bload_predictions`` of the file's metadata is a JSON object: the version of
this format and what made the file.

Each rank writes a part, and the first one joins them. P pairs of a frame, N rows, V = 36 values of
a pair.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bload import InputError
from datasets.annotations.frame_names import frame_number, video_of
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS
from datasets.files import reading, write_whole
from datasets.scoring.prediction import FramePrediction

VERSION = 1
METADATA_KEY = b"bload_predictions"
_REMEDY = "name a Parquet file with the columns of docs/evaluation.md"
_BOXES = [
    f"{role}_{corner}" for role in ("person", "object") for corner in ("x1", "y1", "x2", "y2")
]
_VALUES = [*_BOXES, "person_score", "object_score", *RELATIONS]
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


class PredictionsWriter:
    """Writes one rank's part of a predictions file; `join_parts` makes the file of all parts.

    As a context: a part that ends in an exception is removed.
    """

    def __init__(self, path: Path | str, rank: int = 0) -> None:
        self._path = _part(path, rank)
        self._writer = pq.ParquetWriter(self._path, SCHEMA)

    def __enter__(self) -> "PredictionsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._writer.close()
        if kind is not None:
            self._path.unlink()

    def write(self, frames: Sequence[FrameTargets], predictions: Sequence[FramePrediction]) -> None:
        """Add frames, in any order; none, where a rank has fillers alone."""
        if frames:
            self._writer.write_table(_table(frames, predictions))


def join_parts(path: Path | str, parts: int, metadata: Mapping[str, Any]) -> None:
    """Join the parts of ranks 0 to `parts` - 1 into one file, whole or not at all; remove them.

    `metadata` says what made the file: ``checkpoint``, ``split``, ``root``, ``small_boxes``.
    """
    paths = [_part(path, rank) for rank in range(parts)]
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps({"version": VERSION, **metadata})})
    rows = pa.concat_tables(map(pq.read_table, paths)).cast(schema)
    names = rows["frame"].to_pylist()
    keys = [(video_of(name), frame_number(name)) for name in names]
    rows = rows.take(sorted(range(len(keys)), key=keys.__getitem__))
    # Floats hardly repeat, so dictionaries of them only cost time.
    options = {"compression": "zstd", "use_dictionary": ["video", "frame", "object_name"]}
    write_whole(path, lambda file: pq.write_table(rows, file, **options))
    for part in paths:
        part.unlink()


def write_predictions(
    path: Path | str,
    frames: Iterable[tuple[FrameTargets, FramePrediction]],
    metadata: Mapping[str, Any],
) -> None:
    """Write a file in one process."""
    with PredictionsWriter(path) as writer:
        writer.write(*zip(*frames, strict=True))
    join_parts(path, 1, metadata)


def read_metadata(path: Path | str) -> dict[str, Any]:
    """Return what a file says about itself; empty for a file that another tool wrote.

    Raises `InputError` for a file that is missing, not Parquet, or of another version.
    """
    with reading(path, _REMEDY):
        encoded = (pq.read_schema(path).metadata or {}).get(METADATA_KEY, b"{}")
        metadata = dict(json.loads(encoded))
    if (version := metadata.get("version", VERSION)) != VERSION:
        raise InputError(f"{path} is of version {version}, not {VERSION}; write the file again")
    return metadata


def read_predictions(path: Path | str) -> Iterator[tuple[str, FramePrediction]]:
    """Yield frame names and their predictions, in the file's order; all rows are in memory.

    Raises `InputError` for a file that lacks columns or holds no valid predictions.
    """
    with reading(path, _REMEDY):
        rows = pd.read_parquet(path, columns=["frame", "pair", "object_class", *_VALUES])
        values_NV, is_pair_N = rows[_VALUES].to_numpy(), rows["pair"].notna().to_numpy()
        classes_N = rows["object_class"].to_numpy(float)  # beside nulls they are floats
    for name in rows["frame"][rows.duplicated(["frame", "pair"])][:1]:
        raise InputError(
            f"{path} has two rows of frame {name} with the same pair; write every frame once, and "
            "number its pairs from 0"
        )
    row_of = rows.groupby("frame").indices
    for name in rows["frame"].unique():
        row_P = row_of[name][is_pair_N[row_of[name]]]
        values_PV, classes_P = values_NV[row_P], classes_N[row_P]
        if (classes_P == np.round(classes_P)).all():
            classes_P = classes_P.astype(np.int64)
        scores = values_PV[:, 8], values_PV[:, 9], values_PV[:, 10:]
        try:
            found = FramePrediction(values_PV[:, :4], values_PV[:, 4:8], classes_P, *scores)
        except InputError as error:
            raise InputError(f"{path}, frame {name}: {error}") from error
        yield name, found


def _table(frames: Sequence[FrameTargets], predictions: Sequence[FramePrediction]) -> pa.Table:
    frame_rows = pd.DataFrame(
        [(video_of(frame.name), frame.name, *frame.size_hw) for frame in frames],
        columns=["video", "frame", "height", "width"],
    )
    pairs = pd.DataFrame(np.concatenate([_values(p) for p in predictions]), columns=_VALUES)
    pairs["frame"] = frame_rows["frame"].repeat([len(p) for p in predictions]).to_numpy()
    pairs["pair"] = pairs.groupby("frame").cumcount()
    pairs["object_class"] = np.concatenate([p.object_classes_P for p in predictions])
    pairs["object_name"] = np.array(OBJECTS, object)[pairs["object_class"]]
    rows = frame_rows.merge(pairs, how="left", on="frame")  # nulls for a frame without
    return pa.Table.from_pandas(rows, SCHEMA, preserve_index=False)


def _values(prediction: FramePrediction) -> np.ndarray:
    """Return float32 ``(P, 36)`` in the order of `_VALUES`."""
    boxes = (prediction.person_boxes_P4, prediction.object_boxes_P4)
    scores = (prediction.person_scores_P, prediction.object_scores_P)
    return np.column_stack([*boxes, *scores, prediction.relation_scores_PR]).astype(np.float32)


def _part(path: Path | str, rank: int) -> Path:
    return Path(path).with_name(f"{Path(path).name}.rank{rank}.part")
