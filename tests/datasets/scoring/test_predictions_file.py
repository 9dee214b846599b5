"""Everything written into a predictions file is read again to the last bit, whoever wrote it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from bload.errors import InputError
from datasets.annotations.vocabulary import OBJECTS
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.predictions_file import (
    PredictionsWriter,
    join_parts,
    read_metadata,
    read_predictions,
    write_predictions,
)
from tests.datasets.scoring.drawing import draw_frame

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
    path, nothing = tmp_path / "p.parquet", FramePrediction.empty()
    for written in ([(frame, nothing) for frame, _ in frames], frames):
        write_predictions(path, written, MADE_BY)
        assert_equal(list(read_predictions(path)), written)
    assert read_metadata(path) == {"version": 1, **MADE_BY}
    assert [child.name for child in tmp_path.iterdir()] == ["p.parquet"]
    first, wanted = pd.read_parquet(path).iloc[0], frames[0][1]
    assert (first["video"], first["frame"], first["pair"]) == ("a.mp4", "a.mp4/8.png", 0)
    assert (first["width"], first["height"]) == (480, 400)
    assert first["object_name"] == OBJECTS[wanted.object_classes_P[0]]
    assert first["object_y2"] == wanted.object_boxes_P4[0, 3]
    assert first["writing_on"] == wanted.relation_scores_PR[0, 25]


def test_parts_of_ranks_join_in_order_of_videos(frames, tmp_path):
    path = tmp_path / "p.parquet"
    for order in ([0, 1, 2], [2, 0, 1]):
        videos = [frames[4 * video : 4 * video + 4] for video in order]
        for rank, own in enumerate(([*videos[0], *videos[1]], videos[2], [])):
            with PredictionsWriter(path, rank) as writer:
                if own:
                    writer.write(*zip(*own, strict=True))
        join_parts(path, 3, MADE_BY)
        assert_equal(list(read_predictions(path)), frames)
        assert [child.name for child in tmp_path.iterdir()] == ["p.parquet"]


def test_what_another_tool_wrote_in_other_types_is_read(frames, tmp_path):
    write_predictions(tmp_path / "p.parquet", frames, MADE_BY)
    table = pd.read_parquet(tmp_path / "p.parquet")
    table = table.drop(columns=["video", "width", "height", "object_name"])
    floats = table.columns[table.dtypes == np.float32]
    table = table.astype(dict.fromkeys(floats, np.float64) | {"pair": float})
    table.to_parquet(tmp_path / "theirs.parquet")
    assert read_metadata(tmp_path / "theirs.parquet") == {}
    for (name, got), (frame, wanted) in zip(
        read_predictions(tmp_path / "theirs.parquet"), frames, strict=True
    ):
        assert name == frame.name
        np.testing.assert_array_equal(got.relation_scores_PR, wanted.relation_scores_PR)
        np.testing.assert_array_equal(got.object_classes_P, wanted.object_classes_P)


def test_what_is_no_predictions_file_is_refused(frames, tmp_path):
    path = tmp_path / "p.parquet"
    for content in (b"", b"hello"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"p.parquet cannot be read .* name a Parquet file"):
            list(read_predictions(path))
    write_predictions(path, frames, MADE_BY)
    table = pd.read_parquet(path)
    for changed, words in (
        (table.drop(columns=["holding"]), "p.parquet cannot be read .*holding"),
        (table.assign(object_class="dog"), "p.parquet cannot be read .*dog"),
        (table.assign(holding="0.5"), "is object .* but must be float"),
        (table.assign(holding=3.0), "frame a.mp4/8.png: .* holds 3 but"),
        (table.assign(pair=0), "two rows of frame a.mp4/8.png with the same pair"),
    ):
        changed.to_parquet(path)
        with pytest.raises(InputError, match=words):
            list(read_predictions(path))
    write_predictions(path, frames, {"version": 2})
    with pytest.raises(InputError, match="is of version 2"):
        read_metadata(path)
