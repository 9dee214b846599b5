import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from datasets.prepare import decoder
from datasets.prepare.decoder import Decoder, VideoError
from tests.datasets.video_making import encode, ffmpeg, moving_pattern, official_frames


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> Path:
    """A video of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    plain = moving_pattern(folder / "constant.mp4", "-g", "8", "-bf", "2")
    gaps = "select='not(eq(mod(n,3),1))*not(between(n,12,20))'"
    moving_pattern(folder / "variable.mp4", "-vf", gaps, "-fps_mode", "vfr", frames=30)
    jitter = "setpts='PTS+0.03/TB*mod(N*7,5)/5+gt(N,20)*0.2/TB'"
    scale = ("-video_track_timescale", "90000")
    moving_pattern(folder / "jittered.mp4", "-vf", jitter, "-fps_mode", "vfr", *scale)
    tone = ("-f", "lavfi", "-i", "sine=duration=2")
    ffmpeg("-itsoffset", "0.7", "-i", plain, *tone, "-c:v", "copy", folder / "late.mp4")
    for angle in ("90", "180"):
        turned = folder / f"turned_{angle}.mp4"
        ffmpeg("-display_rotation", angle, "-i", plain, "-c", "copy", turned)
    ffmpeg("-ss", "0.4", "-i", plain, "-c", "copy", folder / "cut.mp4")
    moving_pattern(folder / "full_range.mp4", "-color_range", "pc", size="98x66")
    moving_pattern(folder / "grey.mp4", "-pix_fmt", "gray")
    moving_pattern(folder / "mpeg4.mp4", "-c:v", "mpeg4")
    return folder


@pytest.fixture(scope="module")
def long_video(tmp_path_factory) -> Path:
    """60 frames of noise with their index in front, so that 20,000 bytes are a few frames."""
    noise = np.random.default_rng(0).integers(0, 256, (60, 64, 96, 3), dtype=np.uint8)
    plain = encode(tmp_path_factory.mktemp("long") / "plain.mp4", noise)
    ffmpeg("-i", plain, "-c", "copy", "-movflags", "+faststart", plain.with_name("long.mp4"))
    return plain.with_name("long.mp4")


def decode(video: Path, numbers):
    return Decoder().decode(video, numbers)


def pictures(video: Path, numbers) -> dict[int, np.ndarray]:
    return {number: np.array(image) for number, image in decode(video, numbers)}


def test_frames_are_those_of_the_official_command(videos, tmp_path):
    """Frames are repeated, dropped, put in front and turned in some kinds, which is tested too."""
    official = {path.stem: official_frames(path, tmp_path / path.stem) for path in videos.iterdir()}
    for kind, frames in official.items():
        ours = pictures(videos / f"{kind}.mp4", range(1, len(frames) + 1))
        assert list(ours) == list(frames), kind
        for number, picture in frames.items():
            if picture.ndim == 2:
                picture = np.repeat(picture[..., None], 3, axis=2)
            assert (ours[number] == picture).all(), (kind, number)
        with pytest.raises(VideoError, match=f"ends at frame {len(frames)}, but 1 "):
            pictures(videos / f"{kind}.mp4", [1, len(frames) + 1])

    def repeated(kind: str) -> int:
        frames = official[kind]
        return sum(bool((frames[n] == frames[n + 1]).all()) for n in range(1, len(frames)))

    assert (len(official["constant"]), len(official["late"])) == (40, 61)  # 21 in front
    assert (repeated("constant"), repeated("variable") > 9, repeated("jittered") > 3) == (0, 1, 1)
    assert official["turned_90"][1].shape == (96, 64, 3)
    assert (official["turned_180"][1] == official["constant"][1][::-1, ::-1]).mean() > 0.9
    assert 20 < len(official["cut"]) < 40


def test_frames_are_numbered_from_1_and_a_part_is_the_same_as_in_the_whole(videos, tmp_path):
    greys = [np.full((32, 48, 3), 5 * number, np.uint8) for number in range(1, 31)]
    for number, picture in pictures(encode(tmp_path / "grey.mp4", greys), [1, 2, 17, 30]).items():
        assert abs(picture.mean() - 5 * number) < 2, number
    whole = pictures(videos / "variable.mp4", range(1, 31))
    some = pictures(videos / "variable.mp4", {29, 4, 5})
    assert list(some) == [4, 5, 29]
    assert all((some[number] == whole[number]).all() for number in some)


def test_a_decoder_that_is_left_early_ends_its_process(long_video, monkeypatch):
    started, popen = [], subprocess.Popen
    start = lambda *a, **k: started.append(popen(*a, **k)) or started[-1]  # noqa: E731
    monkeypatch.setattr(decoder.subprocess, "Popen", start)
    frames = decode(long_video, range(1, 61))
    assert next(frames)[0] == 1
    assert os.getpgid(started[0].pid) != os.getpgid(0)  # Ctrl-C never cuts a video off
    frames.close()
    assert started[0].returncode is not None


def test_a_cut_off_video_gives_what_it_has_and_is_reported(long_video, tmp_path):
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(long_video.read_bytes()[: long_video.stat().st_size // 2])
    found = []
    with pytest.raises(VideoError) as caught:
        found.extend(number for number, _ in decode(cut, range(1, 61)))
    assert 15 < len(found) < 40
    said = f"ends at frame {len(found)}, but {60 - len(found)} annotated"
    assert said in str(caught.value)
    assert f"it, {len(found) + 1} first" in str(caught.value)
    assert list(pictures(cut, [1, 10])) == [1, 10]  # nothing after the last one is decoded


def test_a_damaged_video_gives_all_frames_and_is_reported(long_video, tmp_path):
    content = bytearray(long_video.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 3000] = bytes(3000)
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(content)
    found = []
    with pytest.raises(VideoError, match=r"^damaged: .+; all annotated frames"):
        found.extend(number for number, _ in decode(damaged, [1, 60]))
    assert found == [1, 60]


def test_what_is_no_video_is_reported(long_video, tmp_path):
    whole = long_video.with_name("plain.mp4").read_bytes()  # its index is at the end
    ffmpeg("-f", "lavfi", "-i", "sine=duration=1", tmp_path / "tone.mp4")
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "half.mp4").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.mp4").write_bytes(b"<html>404 Not Found</html>\n" * 9)
    for name in ("tone", "folder", "empty", "half", "text", "missing"):
        with pytest.raises(VideoError, match=r"^not decodable: \w+") as caught:
            pictures(tmp_path / f"{name}.mp4", [1])
        assert "0x" not in str(caught.value)
