"""Names of frames: ``001YG.mp4/000089.png`` is frame 89 of video ``001YG.mp4``."""

import re
from collections.abc import Iterable
from typing import Any

from bload.errors import InputError
from datasets.problems import shown

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


def frames_by_video(names: Iterable[str]) -> dict[str, list[str]]:
    """Video -> its frame names in order of time, whatever the order of `names`."""
    videos: dict[str, list[str]] = {}
    for name in names:
        videos.setdefault(video_of(name), []).append(name)
    for frames in videos.values():
        frames.sort(key=lambda name: (frame_number(name), name))
    return videos
