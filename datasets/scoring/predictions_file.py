"""Predictions of many frames in one Parquet file, which any tool can read and any model write.

It has a row per predicted pair, in order of video, time and number of the pair, in the columns of
`SCHEMA`, which docs/evaluation.md explains. A frame without a pair has one row, of nulls from
`pair` on. The key ``bload_predictions`` of the file's metadata is a JSON object that says what made
the file.

Each rank writes a part, and the first one joins them. P pairs of a frame, N rows, V = 36 values of
a pair.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

METADATA_KEY = b"bload_predictions"
_REMEDY = "name a Parquet file with the columns of docs/evaluation.md"
_BOXES = [f"{role}_{end}" for role in ("person", "object") for end in ("x1", "y1", "x2", "y2")]
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
Sink = Callable[[Sequence[FrameTargets], Sequence[FramePrediction]], None]
"""Takes frames and their predictions, batch by batch."""


@contextmanager
def write_part(path: Path | str, rank: int = 0) -> Iterator[Sink]:
    """Give a function that adds frames, in any order, to a rank's part of a predictions file.

    `join_parts` makes the file of all parts.
    """
    with pq.ParquetWriter(_part(path, rank), SCHEMA) as writer:

        def write(frames: Sequence[FrameTargets], predictions: Sequence[FramePrediction]) -> None:
            if frames:  # none, where a rank has fillers alone
                writer.write_table(_table(frames, predictions))

        yield write


def join_parts(path: Path | str, parts: int, metadata: Mapping[str, Any]) -> None:
    """Join the parts of ranks 0 to `parts` - 1 into one file, whole or not at all; remove them.

    `metadata` says what made the file: ``checkpoint``, ``split``, ``root``, ``small_boxes``.
    """
    paths = [_part(path, rank) for rank in range(parts)]
    schema = SCHEMA.with_metadata({METADATA_KEY: json.dumps(metadata)})
    rows = pa.concat_tables(map(pq.read_table, paths)).cast(schema)
    names = rows["frame"].to_pylist()
    keys = [(video_of(name), frame_number(name)) for name in names]
    rows = rows.take(sorted(range(len(keys)), key=keys.__getitem__))
    # Floats hardly repeat, so dictionaries of them only cost time.
    options = {"compression": "zstd", "use_dictionary": ["video", "frame", "object_name"]}
    write_whole(path, lambda file: pq.write_table(rows, file, **options))
    for part in paths:
        part.unlink()


def read_metadata(path: Path | str) -> dict[str, Any]:
    """Return what a file says about itself; empty for a file that another tool wrote.

    Raises `InputError` for a file that is missing or not Parquet.
    """
    with reading(path, _REMEDY):
        return dict(json.loads((pq.read_schema(path).metadata or {}).get(METADATA_KEY, b"{}")))


def read_predictions(path: Path | str) -> Iterator[tuple[str, FramePrediction]]:
    """Yield frame names and their predictions, in the file's order; all rows are in memory.

    Raises `InputError` for a file that lacks columns or holds no valid predictions.
    """
    with reading(path, _REMEDY):
        columns = ["frame", "pair", "object_class", *_VALUES]
        rows = pq.read_table(path, columns=columns).to_pandas(ignore_metadata=True)
        values_NV, is_pair_N = rows[_VALUES].to_numpy(), rows["pair"].notna().to_numpy()
        classes_N = rows["object_class"].astype("Int64").fillna(0).to_numpy(np.int64)
    if rows["frame"].isna().any() or rows.loc[is_pair_N, ["frame", "pair"]].duplicated().any():
        raise InputError(f"{path} has a pair of a frame twice, or a frame without a name")
    row_of = rows.groupby("frame").indices
    for name in rows["frame"].unique():
        row_P = row_of[name][is_pair_N[row_of[name]]]
        values_PV, classes_P = values_NV[row_P], classes_N[row_P]
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
    arrays = ["person_boxes_P4", "object_boxes_P4", "person_scores_P", "object_scores_P"]
    arrays += ["relation_scores_PR"]  # in the order of _VALUES
    values = [np.concatenate([getattr(p, name) for p in predictions]) for name in arrays]
    pairs = pd.DataFrame(np.column_stack(values).astype(np.float32), columns=_VALUES)
    pairs["frame"] = frame_rows["frame"].repeat([len(p) for p in predictions]).to_numpy()
    pairs["pair"] = pairs.groupby("frame").cumcount()
    pairs["object_class"] = np.concatenate([p.object_classes_P for p in predictions])
    pairs["object_name"] = np.array(OBJECTS, object)[pairs["object_class"]]
    rows = frame_rows.merge(pairs, how="left", on="frame")  # nulls for a frame without
    return pa.Table.from_pandas(rows, SCHEMA, preserve_index=False)


def _part(path: Path | str, rank: int) -> Path:
    return Path(path).with_name(f"{Path(path).name}.rank{rank}.part")
