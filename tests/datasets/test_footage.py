"""Videos and folders of frames are read picture by picture, with the numbers of their frames."""

import numpy as np
import pytest
from PIL import Image

from bload.errors import InputError
from datasets.footage import open_footage
from tests.datasets.video_making import ffmpeg, moving_pattern, official_frames


def save(folder, *names):
    folder.mkdir(exist_ok=True)
    for place, name in enumerate(names):
        Image.new("RGB", (12, 8), (place, 0, 0)).save(folder / name)
    return open_footage(folder)


def test_all_frames_of_a_video_are_those_of_the_official_command(tmp_path):
    video = moving_pattern(tmp_path / "plain.mp4", frames=12)
    ffmpeg("-display_rotation", "90", "-i", video, "-c", "copy", tmp_path / "turned.mp4")
    for name, shape in (("plain", (64, 96, 3)), ("turned", (96, 64, 3))):
        official = official_frames(tmp_path / f"{name}.mp4", tmp_path / name)
        footage = open_footage(tmp_path / f"{name}.mp4")
        assert (footage.name, footage.rate) == (f"{name}.mp4", 30)
        found = dict(footage)
        assert [*found] == [*official]
        for number, picture in official.items():
            assert found[number].shape == shape
            assert (found[number] == picture).all()


@pytest.mark.parametrize(
    ("fps", "rate", "numbers"),
    [
        (10, 10, [1, 4, 7, 10]),
        (20, 20, [1, 3, 4, 6, 7, 9, 10, 12]),
        (4, 4, [1, 9]),
        (90, 30, [*range(1, 13)]),
    ],
)
def test_frames_are_looked_at_as_many_a_second_as_asked_for(tmp_path, fps, rate, numbers):
    video = moving_pattern(tmp_path / "plain.mp4", frames=12)
    footage = open_footage(video, fps)
    assert footage.rate == rate
    assert [number for number, _ in footage] == numbers


def test_the_rate_is_that_of_frames_repeated_and_dropped(tmp_path):
    """A video of a varying rate has a constant one as the decoder gives it."""
    gaps = "select='not(between(n,12,20))'"
    video = moving_pattern(tmp_path / "v.mp4", "-vf", gaps, "-fps_mode", "vfr", frames=21)
    assert open_footage(video).rate == 30
    assert dict(open_footage(video)).keys() == official_frames(video, tmp_path / "all").keys()


def test_a_damaged_video_ends_with_its_last_frame(tmp_path):
    video = moving_pattern(tmp_path / "v.ts", "-g", "1", size="192x128")
    cut = tmp_path / "cut.ts"
    cut.write_bytes(video.read_bytes()[:-700])
    footage = open_footage(cut)
    assert 20 < len([*footage]) <= 40
    assert footage.damage.startswith("damaged: ")


def test_frames_of_a_folder_come_in_natural_order_under_their_numbers(tmp_path):
    footage = save(tmp_path / "a", "f10.png", "f9.png", "f100.JPG")
    assert [number for number, _ in footage] == [9, 10, 100]
    assert [int(picture_hwC[0, 0, 0]) for _, picture_hwC in footage] == [1, 0, 2]
    assert (footage.name, footage.rate, open_footage(tmp_path / "a", 3).rate) == ("a", 10, 3)
    for place, names in enumerate((("b.png", "a.png"), ("x1.png", "y1.png"), ("a2.png", "b1.png"))):
        assert [number for number, _ in save(tmp_path / f"b{place}", *names)] == [1, 2]


def test_frames_are_read_one_at_a_time(tmp_path):
    """The second one is made when the first one has been seen."""
    footage = save(tmp_path / "a", "1.png", "2.png")
    (tmp_path / "a" / "2.png").unlink()
    pictures = iter(footage)
    next(pictures)
    Image.fromarray(np.zeros((8, 12, 3), np.uint8)).save(tmp_path / "a" / "2.png")
    assert next(pictures)[0] == 2


def test_a_folder_without_frames_and_a_frame_of_another_size_are_errors(tmp_path):
    with pytest.raises(InputError, match=r"holds no frame .*; give a video or a folder of frames"):
        open_footage(tmp_path)
    footage = save(tmp_path / "a", "1.png")
    Image.new("RGB", (9, 9)).save(tmp_path / "a" / "2.png")
    with pytest.raises(InputError, match=r"2\.png is 9 x 9 pixels .* are 12 x 8; give frames of"):
        [*open_footage(footage_path := tmp_path / "a")]
    assert footage_path.name == footage.name
