"""Everything written into a predictions file is read again to the last bit, whoever wrote it."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import datasets.scoring.predictions_file as predictions_file
from bload.errors import InputError
from datasets.annotations.vocabulary import OBJECTS, RELATIONS
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
    """Three videos of four frames, some of them without a pair, in order."""
    rng = np.random.default_rng(0)
    names = [f"{video}.mp4/{number:06d}.png" for video in "abc" for number in (8, 9, 10, 100)]
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


def test_every_bit_and_every_empty_frame_survives(frames, tmp_path):
    path, nothing = tmp_path / "p.parquet", FramePrediction.empty()
    (tmp_path / "p.parquet.rank0.part").symlink_to("theirs")  # a planted link is not followed
    for written in (frames, [(frame, nothing) for frame, _ in frames]):
        write_predictions(path, written, MADE_BY)
        assert_equal(list(read_predictions(path)), written)
    assert read_metadata(path) == {"version": 1, **MADE_BY}
    assert [child.name for child in tmp_path.iterdir()] == ["p.parquet"]


def test_frames_may_begin_and_end_anywhere_in_row_groups(frames, tmp_path):
    write_predictions(tmp_path / "p.parquet", frames, MADE_BY)
    table = pq.read_table(tmp_path / "p.parquet")
    for rows in (1, 2, 7, 100):
        pq.write_table(table, tmp_path / "q.parquet", row_group_size=rows)
        assert_equal(list(read_predictions(tmp_path / "q.parquet")), frames)
    pq.write_table(table.slice(0, 0), tmp_path / "q.parquet")
    assert list(read_predictions(tmp_path / "q.parquet")) == []


def test_parts_of_ranks_join_in_order_of_names(frames, tmp_path):
    path = tmp_path / "p.parquet"
    write_predictions(tmp_path / "whole.parquet", frames, MADE_BY)
    for order in ([0, 1, 2], [2, 0, 1]):
        videos = [frames[4 * video : 4 * video + 4] for video in order]
        for rank, own in enumerate(([*videos[0], *videos[1]], videos[2], [])):
            with PredictionsWriter(path, rank) as writer:
                if own:
                    writer.write(*zip(*own, strict=True))
        join_parts(path, 3, MADE_BY)
        assert_equal(list(read_predictions(path)), frames)
        assert sorted(child.name for child in tmp_path.iterdir()) == ["p.parquet", "whole.parquet"]
        assert path.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_long_video_is_in_order_of_time_and_not_of_its_names(frames, tmp_path):
    one, found = frames[0]
    numbers = ("000009", "999999", "1000000", "10000000")
    named = [dataclasses.replace(one, name=f"a.mp4/{number}.png") for number in numbers]
    with PredictionsWriter(tmp_path / "p.parquet") as writer:
        for frame in named:
            writer.write([frame], [found])
    join_parts(tmp_path / "p.parquet", 1, MADE_BY)
    assert_equal(list(read_predictions(tmp_path / "p.parquet")), [(one, found) for one in named])


def test_pandas_reads_the_columns_that_are_documented(frames, tmp_path):
    write_predictions(tmp_path / "p.parquet", frames, MADE_BY)
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert list(table.columns) == [
        *("video", "frame", "width", "height", "pair"),
        *("person_x1", "person_y1", "person_x2", "person_y2"),
        *("object_x1", "object_y1", "object_x2", "object_y2"),
        *("object_class", "object_name", "person_score", "object_score"),
        *RELATIONS,
    ]
    first, wanted = table.iloc[0], frames[0][1]
    assert (first["video"], first["frame"]) == ("a.mp4", "a.mp4/000008.png")
    assert (first["width"], first["height"], first["pair"]) == (480, 400, 0)
    assert first["object_name"] == OBJECTS[wanted.object_classes_P[0]]
    assert first["object_y2"] == wanted.object_boxes_P4[0, 3]
    assert first["writing_on"] == wanted.relation_scores_PR[0, 25]
    assert table["pair"].isna().sum() == 4
    assert table["frame"].nunique() == 12


def test_what_another_tool_wrote_in_other_types_is_read(frames, tmp_path):
    write_predictions(tmp_path / "p.parquet", frames, MADE_BY)
    table = pd.read_parquet(tmp_path / "p.parquet")
    table = table.drop(columns=["video", "width", "height", "object_name"])
    floats = table.columns[table.dtypes == np.float32]
    table = table.astype(dict.fromkeys(floats, np.float64) | {"pair": float})
    assert table["object_class"].dtype == float  # pandas' way with integers beside nulls
    table.to_parquet(tmp_path / "theirs.parquet", row_group_size=3)
    assert read_metadata(tmp_path / "theirs.parquet") == {}
    for (name, got), (frame, wanted) in zip(
        read_predictions(tmp_path / "theirs.parquet"), frames, strict=True
    ):
        assert name == frame.name
        np.testing.assert_array_equal(got.relation_scores_PR, wanted.relation_scores_PR)
        np.testing.assert_array_equal(got.object_classes_P, wanted.object_classes_P)


def test_an_exception_leaves_the_old_file_and_no_part(frames, tmp_path):
    path = tmp_path / "p.parquet"
    write_predictions(path, frames[:4], MADE_BY)
    before = path.read_bytes()

    def interrupted():
        yield from frames[:6]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_predictions(path, interrupted(), MADE_BY)
    assert path.read_bytes() == before
    assert [child.name for child in tmp_path.iterdir()] == ["p.parquet"]


def test_what_is_no_predictions_file_is_refused(frames, tmp_path):
    (tmp_path / "text.parquet").write_text("hello")
    pq.write_table(pa.table({"frame": ["a"]}), tmp_path / "name.parquet", store_schema=False)
    content = (tmp_path / "name.parquet").read_bytes()
    (tmp_path / "name.parquet").write_bytes(content.replace(b"frame", b"\xe6rame"))
    for name in ("no.parquet", "text.parquet", "name.parquet"):
        with pytest.raises(InputError, match=rf"{name} cannot be read .* name a Parquet file"):
            read_metadata(tmp_path / name)
    write_predictions(tmp_path / "p.parquet", frames, MADE_BY)
    table = pd.read_parquet(tmp_path / "p.parquet")
    table.drop(columns=["holding"]).to_parquet(tmp_path / "less.parquet")
    with pytest.raises(InputError, match=r"less.parquet has no column holding \(1 of 39 are"):
        list(read_predictions(tmp_path / "less.parquet"))
    table.loc[table["frame"] == "a.mp4/000010.png", "holding"] = 3.0
    table.to_parquet(tmp_path / "logits.parquet")
    with pytest.raises(InputError, match=r"logits.parquet, frame a.mp4/000010.png: .* holds 3 but"):
        list(read_predictions(tmp_path / "logits.parquet"))
    table.assign(holding=0.5, object_class=None).to_parquet(tmp_path / "nulls.parquet")
    with pytest.raises(InputError, match=r"nulls.parquet, frame .*: object_classes_P"):
        list(read_predictions(tmp_path / "nulls.parquet"))
    for name, value in (
        ("object_class", "dog"),
        ("holding", "0.5"),
        ("pair", "a"),
        ("frame", None),
    ):
        table.assign(**{name: value}).to_parquet(tmp_path / "text.parquet")
        with pytest.raises(InputError, match=rf"text.parquet has .* {name}\b"):
            list(read_predictions(tmp_path / "text.parquet"))
    for about, words in (('{"version": 2}', "is of version 2 of"), ("[1]", "cannot be read")):
        other = pq.read_table(tmp_path / "p.parquet").replace_schema_metadata(
            {predictions_file.METADATA_KEY: about}
        )
        pq.write_table(other, tmp_path / "other.parquet")
        with pytest.raises(InputError, match=rf"other.parquet {words}"):
            list(read_predictions(tmp_path / "other.parquet"))
