"""Names of frames: ``001YG.mp4/000089.png`` is frame 89 of the video ``001YG.mp4``."""

import re
from collections.abc import Iterable
from typing import Any

from datasets.annotations.problems import Problems, short_repr

_FRAME_NAME = re.compile(r"(?![. ])[\w .()+-]{1,100}/[0-9]{1,9}\.[A-Za-z]{1,8}")


def video_of(name: str) -> str:
    """Return the video of a frame: ``001YG.mp4/000089.png`` -> ``001YG.mp4``."""
    return name.partition("/")[0]


def frame_number(name: str) -> int:
    """Return the number of a frame: ``001YG.mp4/000089.png`` -> 89."""
    return int(name.rpartition("/")[2].partition(".")[0])


def valid_names(names: Iterable[Any], problems: Problems) -> list[str]:
    """Return the names that can be frames; add the others to `problems`.

    A name is wrong if it is not VIDEO/NUMBER.EXTENSION (which stays inside the frames folder), or
    if its number is 0 (`ffmpeg -i VIDEO %06d.png`, which makes the frames, begins with 1).
    """
    valid = []
    for name in names:
        if not isinstance(name, str) or not _FRAME_NAME.fullmatch(name):
            problems.add("frame names not of the form VIDEO/NUMBER.png", short_repr(name))
        elif frame_number(name) == 0:
            problems.add("frames numbered 0, though videos begin with frame 1", name)
        else:
            valid.append(name)
    return valid


def frames_by_video(names: Iterable[str]) -> dict[str, list[str]]:
    """Return video -> its frame names in order of time; videos by name."""
    videos: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (video_of(name), frame_number(name))):
        videos.setdefault(video_of(name), []).append(name)
    return videos
