"""Predictions of many frames in one Parquet file, which any tool can read and any model write.

It has a row per predicted pair, in order of video, time and number of the pair, in the columns of
`SCHEMA`, which docs/evaluation.md explains. A frame without a pair has one row, of nulls from
`pair` on. The key ``bload_predictions`` of the file's metadata is a JSON object: the version of
this format and what made the file.

Each rank writes a part, and the parts are joined row group by row group, so memory does not grow
with the number of frames. P pairs of a frame, N rows, V = 36 values of a pair.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bload import InputError
from datasets.annotations.frame_names import frame_number, video_of
from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import OBJECTS, RELATIONS
from datasets.files import plain_file, reading, write_whole
from datasets.scoring.prediction import FramePrediction

VERSION = 1
METADATA_KEY = b"bload_predictions"
_REMEDY = "name a Parquet file that eval.py predictions=FILE or another model wrote"
_BOXES = [
    f"{role}_{corner}" for role in ("person", "object") for corner in ("x1", "y1", "x2", "y2")
]
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


class PredictionsWriter:
    """Writes one rank's part of a predictions file; `join_parts` makes the file of all parts.

    As a context: a part that ends in an exception is removed.
    """

    def __init__(self, path: Path | str, rank: int = 0) -> None:
        self._path = _part(path, rank)
        self._file = self._path.open("wb")
        self._writer = _open_writer(self._file, SCHEMA)

    def __enter__(self) -> "PredictionsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._writer.close()
        self._file.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)

    def write(self, frames: Sequence[FrameTargets], predictions: Sequence[FramePrediction]) -> None:
        """Add frames; those of a video come one after another, in order of time."""
        for video in _by_video(zip(frames, predictions, strict=True)):
            self._writer.write_table(_table(*video))  # a row group, to sort by


def join_parts(path: Path | str, parts: int, metadata: Mapping[str, Any]) -> None:
    """Join the parts of ranks 0 to `parts` - 1 into one file, whole or not at all; remove them.

    `metadata` says what made the file: ``checkpoint``, ``split``, ``root``, ``small_boxes``.
    """
    paths = [_part(path, rank) for rank in range(parts)]
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps({"version": VERSION, **metadata})})

    def write(output: BinaryIO) -> None:
        groups = [
            (file, group)
            for file in map(pq.ParquetFile, paths)
            for group in range(file.num_row_groups)
        ]

        def first_frame(group: tuple[pq.ParquetFile, int]) -> tuple[str, int]:
            name = group[0].read_row_group(group[1], columns=["frame"])["frame"][0].as_py()
            return video_of(name), frame_number(name)

        with _open_writer(output, schema) as writer:
            for file, group in sorted(groups, key=first_frame):
                writer.write_table(file.read_row_group(group))

    try:
        write_whole(path, write)
    finally:
        for part in paths:
            part.unlink(missing_ok=True)


def write_predictions(
    path: Path | str,
    frames: Iterable[tuple[FrameTargets, FramePrediction]],
    metadata: Mapping[str, Any],
) -> None:
    """Write a file in one process; the frames of a video come one after another, in order."""
    with PredictionsWriter(path) as writer:
        for video in _by_video(frames):
            writer.write(*video)
    join_parts(path, 1, metadata)


def read_metadata(path: Path | str) -> dict[str, Any]:
    """Return what a file says about itself; empty for a file that another tool wrote.

    Raises `InputError` for a file that is missing, not Parquet, or of another version.
    """
    return _open(path)[1]


def read_predictions(path: Path | str) -> Iterator[tuple[str, FramePrediction]]:
    """Yield frame names and their predictions, in the file's order.

    Raises `InputError` for a file that lacks columns or holds no valid predictions.
    """
    file, _ = _open(path)
    types = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
    if missing := [name for name in _NEEDED if name not in types]:
        raise InputError(
            f"{path} has no column {missing[0]} ({len(missing)} of {len(_NEEDED)} are missing); "
            "the columns are those of datasets/scoring/predictions_file.py"
        )
    for name in _NEEDED[1:]:
        kind = types[name]
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise InputError(f"{path} has values of type {kind} in column {name}; give numbers")
    last_frame = None  # which the next row group may continue
    # By row group: iter_batches keeps what it has read, and so grows with the file.
    for group in range(file.num_row_groups):
        with reading(path, _REMEDY):
            rows = file.read_row_group(group, columns=_NEEDED).to_pandas()
        if rows["frame"].isna().any():
            raise InputError(f"{path} has a row without a frame; give its name")
        rows = pd.concat([last_frame, rows], ignore_index=True)
        is_last = rows["frame"].isin(rows["frame"].tail(1))
        yield from _frames(path, rows[~is_last])
        last_frame = rows[is_last]
    if last_frame is not None:
        yield from _frames(path, last_frame)


def _frames(path: Path | str, rows: pd.DataFrame) -> Iterator[tuple[str, FramePrediction]]:
    for name in rows["frame"][rows.duplicated(["frame", "pair"])][:1]:
        raise InputError(
            f"{path} has two rows of frame {name} with the same pair; write every frame once, and "
            "number its pairs from 0"
        )
    is_pair_N, values_NV = rows["pair"].notna().to_numpy(), rows[_VALUES].to_numpy()
    classes_N = rows["object_class"].to_numpy(float)  # a column may be of nulls alone
    row_of = rows.groupby("frame", sort=False).indices
    for name in rows["frame"].unique():
        row_P = row_of[name][is_pair_N[row_of[name]]]
        values_PV, classes_P = values_NV[row_P], classes_N[row_P]
        if (classes_P == np.round(classes_P)).all():
            classes_P = classes_P.astype(np.int64)
        people, objects = values_PV[:, 0:4], values_PV[:, 4:8]
        scores = values_PV[:, 8], values_PV[:, 9], values_PV[:, 10:]
        try:
            prediction = FramePrediction(people, objects, classes_P, *scores)
        except InputError as error:
            raise InputError(f"{path}, frame {name}: {error}") from error
        yield name, prediction


def _by_video(
    frames: Iterable[tuple[FrameTargets, FramePrediction]],
) -> Iterator[tuple[tuple[FrameTargets, ...], tuple[FramePrediction, ...]]]:
    """Yield the targets and the predictions of each video's frames, which follow one another."""
    for _, video in groupby(frames, key=lambda pair: video_of(pair[0].name)):
        targets, predictions = zip(*video, strict=True)
        yield targets, predictions


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


def _open(path: Path | str) -> tuple[pq.ParquetFile, dict[str, Any]]:
    with reading(path, _REMEDY):
        file = pq.ParquetFile(plain_file(path))
        encoded = (file.schema_arrow.metadata or {}).get(METADATA_KEY, b"{}")
        metadata: dict[str, Any] = dict(json.loads(encoded))
    if metadata.get("version", VERSION) != VERSION:
        raise InputError(
            f"{path} is of version {metadata['version']} of the predictions format and this "
            f"program reads version {VERSION}; write the file again"
        )
    return file, metadata


def _open_writer(file: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    # Floats hardly repeat, so dictionaries of them only cost time.
    return pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=["video", "frame", "object_name"]
    )


def _part(path: Path | str, rank: int) -> Path:
    return Path(path).with_name(f"{Path(path).name}.rank{rank}.part")
