"""Pictures become an mp4 file, or there is none and one sentence says why."""

import imageio_ffmpeg
import numpy as np
import pytest

from bload.errors import InputError
from datasets.film import FilmWriter
from datasets.footage import open_footage

GREYS = [np.full((32, 48, 3), 20 * number, np.uint8) for number in range(10)]


def write(path, rate=7.5):
    with FilmWriter(path, rate) as film:
        for picture in GREYS:
            film.write(picture)


def test_a_film_gives_its_pictures_again_at_its_rate(tmp_path):
    write(tmp_path / "film.mp4")
    film = open_footage(tmp_path / "film.mp4")
    assert film.rate == 7.5
    found = [picture_hwC for _, picture_hwC in film]
    assert len(found) == len(GREYS)
    for picture, wanted in zip(found, GREYS, strict=True):
        assert np.abs(picture.astype(int) - wanted).max() < 4
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


def test_an_exception_leaves_what_was_there(tmp_path):
    path = tmp_path / "film.mp4"
    path.write_text("before")
    pictures = iter(GREYS[:3])

    def interrupted(film):
        while True:
            film.write(next(pictures))

    with pytest.raises(StopIteration), FilmWriter(path, 10) as film:
        interrupted(film)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]


def test_an_ffmpeg_without_the_encoder_is_said(tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    knows_its_version = "[ $1 = -version ] && echo ffmpeg version 1 && exit"
    no_encoder = "echo Unknown encoder \\'libx264\\' >&2; exit 1"
    program.write_text(f"#!/bin/sh\n{knows_its_version}\n{no_encoder}\n")
    program.chmod(0o755)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(program))
    with pytest.raises(
        InputError, match=r"film\.mp4 cannot be written \(Unknown encoder 'libx264'"
    ):
        write(tmp_path / "film.mp4")
    assert [file.name for file in tmp_path.iterdir()] == ["ffmpeg"]
