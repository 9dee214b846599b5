"""Names of frames: ``001YG.mp4/000089.png`` is frame 89 of video ``001YG.mp4``."""

import re
from collections.abc import Iterable
from typing import Any

from bload.errors import InputError
from datasets.annotations.problems import Problems, shown

_FRAME_NAME = re.compile(r"(?![. ])[\w .()+-]{1,100}/[0-9]{1,9}\.[A-Za-z]{1,8}")


def video_of(name: str) -> str:
    """``001YG.mp4/000089.png`` -> ``001YG.mp4``."""
    return name.partition("/")[0]


def frame_number(name: str) -> int:
    """``001YG.mp4/000089.png`` -> 89."""
    return int(name.rpartition("/")[2].partition(".")[0])


def check_frame_name(name: Any) -> None:
    """Refuse a name that is not VIDEO/NUMBER.EXTENSION, or that would leave the frames folder."""
    if not isinstance(name, str) or not _FRAME_NAME.fullmatch(name):
        raise InputError(
            f"frame name {shown(name)} is not of the form VIDEO/NUMBER.png, like "
            "001YG.mp4/000089.png; mend the annotations"
        )


def sound_names(names: Iterable[Any], problems: Problems) -> list[str]:
    """Those of `names` that can be frames, each frame once; what is wrong is noted in `problems`.

    A name is wrong if it is of another form, if its number is 0 (`ffmpeg -i VIDEO %06d.png`, which
    makes the frames, begins with 1), or if an earlier name says the same video and number.
    """
    name_of: dict[tuple[str, int], str] = {}
    for name in names:
        try:
            check_frame_name(name)
        except InputError:
            problems.add("frame names not of the form VIDEO/NUMBER.png", shown(name))
            continue
        video, number = video_of(name), frame_number(name)
        if number == 0:
            problems.add("frames numbered 0, though videos begin with frame 1", name)
        elif (other := name_of.setdefault((video, number), name)) != name:
            problems.add("frames under two names", f"{other} and {name}")
    return list(name_of.values())


def frames_by_video(names: Iterable[str]) -> dict[str, list[str]]:
    """Video -> its frame names in order of time, whatever the order of `names`."""
    videos: dict[str, list[str]] = {}
    for name in names:
        videos.setdefault(video_of(name), []).append(name)
    for frames in videos.values():
        frames.sort(key=lambda name: (frame_number(name), name))
    return videos
