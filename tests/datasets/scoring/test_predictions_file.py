"""Everything written into a predictions file is read again to the last bit, whoever wrote it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from bload.errors import InputError
from datasets.annotations.vocabulary import OBJECTS
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.predictions_file import (
    join_parts,
    read_metadata,
    read_predictions,
    write_part,
)
from tests.datasets.scoring.drawing import draw_frame, write_predictions

MADE_BY = {"checkpoint": "last.pt", "split": "test", "root": "data", "small_boxes": "keep"}


@pytest.fixture
def frames():
    """Three videos of four frames, some of them without a pair, in order of time."""
    rng = np.random.default_rng(0)
    names = [f"{video}.mp4/{number}.png" for video in "abc" for number in (8, 9, 10, 100)]
    pairs = [3, 0, 2, 5, 0, 0, 1, 4, 2, 2, 2, 0]
    drawn = [draw_frame(rng, name, count) for name, count in zip(names, pairs, strict=True)]
    return [(target, prediction) for prediction, target in drawn]


def assert_equal(read, frames):
    assert [name for name, _ in read] == [frame.name for frame, _ in frames]
    for (_, got), (_, wanted) in zip(read, frames, strict=True):
        for field in dataclasses.fields(FramePrediction):
            a, b = getattr(got, field.name), getattr(wanted, field.name)
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def test_every_bit_and_every_empty_frame_survives_in_the_documented_columns(frames, tmp_path):
    path, nothing = tmp_path / "p.parquet", frames[1][1]
    for written in ([(frame, nothing) for frame, _ in frames], frames):
        write_predictions(path, written, MADE_BY)
        assert_equal(list(read_predictions(path)), written)
    assert read_metadata(path) == MADE_BY
    assert [child.name for child in tmp_path.iterdir()] == ["p.parquet"]
    first, wanted = pd.read_parquet(path).iloc[0], frames[0][1]
    assert (first["video"], first["frame"], first["pair"]) == ("a.mp4", "a.mp4/8.png", 0)
    assert (first["width"], first["height"]) == (480, 400)
    assert first["object_name"] == OBJECTS[wanted.object_classes_P[0]]
    assert first["object_y2"] == wanted.object_boxes_P4[0, 3]
    assert first["writing_on"] == wanted.relation_scores_PR[0, 25]


def test_parts_of_ranks_join_in_order_of_videos(frames, tmp_path):
    path = tmp_path / "p.parquet"
    for rank, own in enumerate((frames[8:], frames[:8], [])):
        with write_part(path, rank) as write:
            write(*(zip(*own, strict=True) if own else ([], [])))
    join_parts(path, 3, MADE_BY)
    assert_equal(list(read_predictions(path)), frames)
    assert [child.name for child in tmp_path.iterdir()] == ["p.parquet"]


def test_what_another_tool_wrote_in_other_types_is_read(frames, tmp_path):
    path = tmp_path / "theirs.parquet"
    write_predictions(path, frames, MADE_BY)
    table = pd.read_parquet(path)
    table = table.drop(columns=["video", "width", "height", "object_name"])
    floats = table.columns[table.dtypes == np.float32]
    doubles = table.astype(dict.fromkeys([*floats, "pair", "object_class"], np.float64))
    for theirs in (doubles, table.convert_dtypes().set_index("frame")):
        theirs.to_parquet(path)
        assert read_metadata(path) == {}
        for (_, read), (_, wanted) in zip(read_predictions(path), frames, strict=True):
            np.testing.assert_array_equal(read.relation_scores_PR, wanted.relation_scores_PR)
            np.testing.assert_array_equal(read.object_classes_P, wanted.object_classes_P)


def test_what_is_no_predictions_file_is_refused(frames, tmp_path):
    path = tmp_path / "p.parquet"
    path.write_bytes(b"hello")
    with pytest.raises(InputError, match=r"p.parquet cannot be read .* name a Parquet file"):
        list(read_predictions(path))
    write_predictions(path, frames, MADE_BY)
    table = pd.read_parquet(path)
    for changed, words in (
        (table.drop(columns=["holding"]), "p.parquet cannot be read .*holding"),
        (table.assign(object_class=5.5), "p.parquet cannot be read "),
        (table.assign(holding="0.5"), "is object .* but must be float"),
        (table.assign(holding=3.0), "frame a.mp4/8.png: .* holds 3 but"),
        (pd.concat([table, table]), "a pair of a frame twice"),
        (table.assign(frame=None), "a frame without a name"),
    ):
        changed.to_parquet(path)
        with pytest.raises(InputError, match=words):
            list(read_predictions(path))
