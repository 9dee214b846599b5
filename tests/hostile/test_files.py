"""Frames, checkpoints and prediction files: pixels, weights and pairs, or one sentence."""

import hashlib
import io
import json
import struct
import zipfile
import zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bload.errors import InputError
from datasets.annotations.vocabulary import RELATIONS
from datasets.frames.decode import decode
from datasets.scoring.predictions_file import METADATA_KEY, read_metadata, read_predictions
from tests.hostile.conftest import hostile
from tests.hostile.damage import SCALARS, VALUES, damaged
from tests.hostile.test_annotations import HARMFUL
from training.checkpoint import sealed


def image(kind: str, mode: str = "RGB", **options) -> bytes:
    """A picture of 24 x 16 pixels."""
    stream = io.BytesIO()
    Image.effect_noise((24, 16), 50).convert(mode).save(stream, kind, **options)
    return stream.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG with its right checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, depth: int, colour: int, data: bytes, *more: bytes) -> bytes:
    """A PNG that says so, whatever its data are."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = (chunk(b"IHDR", header), *more, chunk(b"IDAT", data), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


WHOLE = [
    *(image("PNG"), image("PNG", "P"), image("PNG", "L"), image("PNG", "RGBA")),
    *(image("JPEG"), image("JPEG", progressive=True), image("JPEG", "CMYK")),
    *(image("WEBP"), image("GIF"), image("TIFF"), image("BMP")),
]
BOMB = zlib.compress(bytes(10**7), 9)
SIDES = st.sampled_from([0, 1, 24, 9_000, 50_000, 2**31 - 1])
PNGS = st.builds(
    png,
    SIDES,
    SIDES,
    st.sampled_from([1, 8, 16, 0, 255]),
    st.sampled_from([0, 2, 3, 4, 6, 9]),
    st.sampled_from([BOMB, b"", zlib.compress(bytes(24 * 73))]),
    st.sampled_from([chunk(b"zTXt", b"a\0\0" + BOMB), chunk(b"iCCP", b"a\0\0" + BOMB)])
    | st.builds(lambda data: chunk(b"eXIf", data), st.binary(max_size=60))
    | st.builds(lambda data: chunk(b"PLTE", data), st.binary(max_size=60)),
)
IMAGES = st.one_of(*(damaged(whole) for whole in WHOLE), PNGS, st.binary(max_size=100))


@hostile(0.31)
@given(content=IMAGES)
@pytest.mark.filterwarnings("ignore")
def test_a_frame_is_pixels_or_refused(refused_or, tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "000001.png"
    path.write_bytes(content)
    pixels = refused_or(decode, path)
    if pixels is not None:
        assert (pixels.dtype, pixels.ndim, pixels.shape[2]) == (np.uint8, 3, 3)


STATE = {
    "model": {"weight": torch.arange(6.0)},
    "config": {"model": {"name": "dds_tiny", "width": 4}, "dataset": {}},
    "average": {},
}
SAVED = sealed(STATE)


def reseal(content: bytes) -> bytes:
    """The bytes with the seal that belongs to them: its maker needs no key."""
    seal = hashlib.sha256(content + bytes(2)).hexdigest().encode()
    return content + b"@\0" + seal


def members(pickled: bytes, compressed: bool = False) -> bytes:
    """A checkpoint of any pickle, sealed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", 8 if compressed else 0) as file:
        file.writestr("archive/data.pkl", pickled)
        file.writestr("archive/version", "3\n")
        file.writestr("archive/data/0", bytes(24))
    return reseal(stream.getvalue()[:-2])


@st.composite
def checkpoints(draw: st.DrawFn) -> bytes:
    """Damaged ones, sealed or not, ones of other values, and pickles that do harm."""
    match draw(st.integers(0, 4)):
        case 0:
            return draw(damaged(SAVED))
        case 1:
            return reseal(draw(damaged(SAVED[:-66])))
        case 2:
            values = st.dictionaries(st.sampled_from(["model", "config", "average"]), VALUES)
            try:
                return sealed(STATE | draw(values))
            except UnicodeEncodeError:
                return SAVED
        case 3:
            config = st.fixed_dictionaries({"model": VALUES | st.dictionaries(
                st.sampled_from(["name", "width", "backbone", "heads", "queries"]), SCALARS
            )})  # fmt: skip
            try:
                return sealed(STATE | {"config": draw(config)})
            except UnicodeEncodeError:
                return SAVED
        case _:
            return members(draw(st.sampled_from([*HARMFUL.values()])), draw(st.booleans()))


ROWS = {
    "frame": ["a.mp4/000001.png", "a.mp4/000001.png", "a.mp4/000002.png"],
    "pair": [0, 1, None],
    "object_class": [2, 36, None],
    **{f"{who}_{end}1": [1.0, 2.0, None] for who in ("person", "object") for end in "xy"},
    **{f"{who}_{end}2": [1.0, 2.0, None] for who in ("person", "object") for end in "xy"},
    **{name: [0.5, 1.0, None] for name in ("person_score", "object_score", *RELATIONS)},
}
ODD = st.sampled_from(
    [
        *([1, 2, 3], ["1", "x", None], [[1.0]] * 3, [{"a": 1}] * 3, [b"\xff"] * 3, [True] * 3),
        *([float("nan")] * 3, [1e40] * 3, [None] * 3, [-1, 99, 2**40], [1.5, 2.5, 3.5]),
        *([pd.Timestamp(0)] * 3, ["a\nb", "\x1b[2J", ""]),
    ]
)
METADATA = st.one_of(
    *(st.none(), st.binary(max_size=20)),
    *(VALUES.map(lambda value: repr(value).encode(errors="replace")),),
    st.dictionaries(st.sampled_from(["version", "root", "split", "checkpoint"]), SCALARS).map(
        lambda value: json.dumps(value).encode()
    ),
)


@st.composite
def prediction_files(draw: st.DrawFn) -> bytes:
    """A Parquet file with other columns, other metadata, or damaged bytes."""
    names = st.sampled_from(["frame", "pair", "object_class", "person_x1", "writing_on"])
    table = pa.table(ROWS | draw(st.dictionaries(names, ODD, max_size=2)))
    if (said := draw(METADATA)) is not None:
        table = table.replace_schema_metadata({METADATA_KEY: said})
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=draw(st.integers(1, 3)))
    return draw(damaged(stream.getvalue())) if draw(st.booleans()) else stream.getvalue()


def read_all(path) -> list:
    return [read_metadata(path), *read_predictions(path)]


@hostile(0.05)
@given(content=prediction_files())
@pytest.mark.filterwarnings("ignore")
def test_predictions_are_read_or_refused(refused_or, tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "predictions.parquet"
    path.write_bytes(content)
    for name, prediction in (refused_or(read_all, path) or [])[1:]:
        assert isinstance(name, str)
        assert len(prediction) >= 0


def test_a_group_of_too_many_rows_is_not_read(tmp_path):
    kinds = {name: pa.null() for name in ROWS} | {"frame": pa.string()}
    nothing = pa.table({name: pa.nulls(5_000_000, kind) for name, kind in kinds.items()})
    pq.write_table(nothing, tmp_path / "p.parquet", row_group_size=5_000_000)
    assert (tmp_path / "p.parquet").stat().st_size < 10**6
    with pytest.raises(InputError, match="has 5,000,000 rows in row group 0"):
        read_all(tmp_path / "p.parquet")
