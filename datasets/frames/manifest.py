"""What ``ROOT/frames`` holds and how it was made: ``manifest.json``.

It is written before the first video, so that a killed run has told its format, whenever a video
turns out to be bad, and at the end. Frames without one are PNG files of native size, as in the
official dump.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal, get_args

from bload.errors import InputError

MANIFEST = "manifest.json"
VERSION = 1

Format = Literal["png", "jpeg"]
SUFFIXES: dict[Format, str] = {"png": ".png", "jpeg": ".jpg"}

_COUNTS = ("videos", "frames", "bytes", "frames_missing", "videos_missing", "videos_corrupt")


@dataclass(frozen=True, slots=True)
class Manifest:
    """How the files of a frames folder were made, and what is there.

    `format`, `quality` (None for PNG) and `short_side` (None: native size) are the same for all
    files. `decoder` and `encoder` name programs and versions. `complete` says that every annotated
    frame is there as it was written. `videos` and `frames` count what is there, `bytes` its size,
    `frames_missing` the annotated frames that are not, `videos_missing` and `videos_corrupt` the
    videos among `problems` (video -> reason). `checksum` is that of `frames_checksum`.
    """

    format: Format
    quality: int | None
    short_side: int | None
    decoder: str
    encoder: str
    complete: bool = False
    videos: int = 0
    frames: int = 0
    bytes: int = 0
    frames_missing: int = 0
    videos_missing: int = 0
    videos_corrupt: int = 0
    checksum: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise InputError(f"format {self.format!r} is not png or jpeg")
        if self.short_side is not None and not _is_count(self.short_side, least=1):
            raise InputError(f"short_side {self.short_side!r} is not a number of pixels or null")
        if (self.format == "jpeg") != _is_count(self.quality, least=1):
            raise InputError(f"quality {self.quality!r} does not go with format {self.format}")
        if not isinstance(self.complete, bool) or not isinstance(self.checksum, str):
            raise InputError("complete or checksum is not what this version writes")
        if not isinstance(self.problems, dict):
            raise InputError(f"problems {self.problems!r} is not a dictionary")
        for name in _COUNTS:
            if not _is_count(getattr(self, name)):
                raise InputError(f"{name} {getattr(self, name)!r} is not a number")

    def file_of(self, frame: str) -> str:
        """The file of a frame below the frames folder: an annotated name with this suffix."""
        return file_of(frame, self.format)


def file_of(frame: str, format: Format) -> str:
    """``001YG.mp4/000089.png`` as a file of `format`: the same, or ``001YG.mp4/000089.jpg``."""
    return frame.rpartition(".")[0] + SUFFIXES[format]


def frames_checksum(size_of: Mapping[str, int]) -> str:
    """SHA-256 of the sorted lines ``FILE SIZE`` of all annotated frames that are there.

    It can be checked by asking for sizes alone, without reading a file, and shows files that were
    lost, added, cut off or written anew in another way; not a flipped bit.
    """
    lines = "".join(f"{name} {size_of[name]}\n" for name in sorted(size_of))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def read_manifest(frames_folder: Path | str) -> Manifest | None:
    """The manifest of a frames folder, or None if it has none.

    Raises `InputError` naming the file if it cannot be read or says what it cannot say.
    """
    path = Path(frames_folder) / MANIFEST
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        version = said.pop("version")
        if version != VERSION:
            raise InputError(f"its version is {version}, not {VERSION}")
        known = {field.name for field in fields(Manifest)}
        if said.keys() - known:
            raise InputError(f"nothing here knows {', '.join(sorted(said.keys() - known))}")
        return Manifest(**said)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else error
        raise InputError(
            f"{path} cannot be read ({reason}); remove {path.parent} and run "
            f"python -m datasets.prepare --root {path.parent.parent} again"
        ) from error


def write_manifest(frames_folder: Path, manifest: Manifest) -> None:
    """Write the manifest beside its place and rename it, so that it is there as a whole or not."""
    partial = frames_folder / f".{MANIFEST}.partial"
    with partial.open("w", encoding="utf-8") as file:
        json.dump({"version": VERSION} | asdict(manifest), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, frames_folder / MANIFEST)


def _is_count(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
