"""The record of a frames folder: how its files were made, and how many exist.

``manifest.json`` is written before the first video, so that a killed run leaves the format,
whenever a video turns out to be bad, and at the end. Frames without a manifest are PNG files of
native size, as in the official dump.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal

from bload import InputError
from datasets.files import plain_file, write_whole

MANIFEST = "manifest.json"
VERSION = 1

Format = Literal["png", "jpeg"]
SUFFIXES: dict[Format, str] = {"png": ".png", "jpeg": ".jpg"}


@dataclass(frozen=True, slots=True)
class Manifest:
    """Format and contents of a frames folder.

    `format`, `quality` (1 to 100; None for PNG) and `short_side` (None: native size) are the same
    for all files. `decoder` names the programs that wrote them, with versions. `videos` counts the
    complete videos, `frames` and `bytes` the existing frames, `frames_missing` the missing
    annotated ones; `problems` has video -> reason. Raises `InputError` for impossible values.
    """

    format: Format = "png"
    quality: int | None = None
    short_side: int | None = None
    decoder: str = ""
    videos: int = 0
    frames: int = 0
    bytes: int = 0
    frames_missing: int = 0
    problems: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in SUFFIXES:
            raise InputError(f"format {self.format!r} is not png or jpeg")
        if self.short_side is not None and self.short_side < 1:
            raise InputError(f"short side {self.short_side} is not a number of pixels, 1 or more")
        if self.format == "png" and self.quality is not None:
            raise InputError(f"quality {self.quality} does not go with png; leave it out")
        if self.format == "jpeg" and not 1 <= (self.quality or 0) <= 100:
            raise InputError(f"quality {self.quality} of jpeg is not between 1 and 100")

    def describe(self) -> str:
        """Describe the files, like ``JPEG 95, short side 256`` or ``PNG, native size``."""
        quality = f" {self.quality}" if self.quality else ""
        size = f"short side {self.short_side}" if self.short_side else "native size"
        return f"{self.format.upper()}{quality}, {size}"


def file_name(frame: str, file_format: Format) -> str:
    """Return ``001YG.mp4/000089.png`` as a file of `file_format`, like ``001YG.mp4/000089.jpg``."""
    return frame.rpartition(".")[0] + SUFFIXES[file_format]


def read_manifest(frames_folder: Path | str) -> Manifest | None:
    """Return the manifest of a frames folder, or None if it has none.

    Raises `InputError` naming the file if it cannot be read or has impossible values.
    """
    path = Path(frames_folder) / MANIFEST
    try:
        saved = json.loads(plain_file(path).read_text(encoding="utf-8"))
        if saved["version"] != VERSION:
            raise InputError(f"its version is {saved['version']}, not {VERSION}")
        return Manifest(**{key.name: saved[key.name] for key in fields(Manifest)})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {error}); remove {path.parent} and "
            f"run python -m datasets.prepare --root {path.parent.parent} again"
        ) from error


def write_manifest(frames_folder: Path, manifest: Manifest) -> None:
    """Write the manifest, whole or not at all."""
    text = json.dumps({"version": VERSION} | asdict(manifest), indent=2)
    write_whole(frames_folder / MANIFEST, f"{text}\n")
