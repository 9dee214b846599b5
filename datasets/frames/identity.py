"""By what a change of the frame files of a root is noticed without reading them.

F frames of a table in V videos.
"""

import hashlib
from pathlib import Path

from datasets.annotations.frame_table import FrameTable
from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames.manifest import file_of, read_manifest

MADE_BY = "synthetic.json"


def frames_identity(root: Path | str, table: FrameTable) -> str:
    """A checksum that changes when the frames of `table` under `root` are written anew.

    It covers size and time of writing of the first frame file of each video, what
    ``frames/manifest.json`` says (among it a checksum of the names and sizes of all files), and
    what ``synthetic.json`` says. So other frames, another format or size, and videos extracted or
    copied again are noticed; a later frame of a video that was replaced by hand is not. A missing
    file counts as one of size 0. Takes V queries of the file system.
    """
    root, digest = Path(root), hashlib.sha256()
    manifest = read_manifest(root / FRAMES_FOLDER)
    format = manifest.format if manifest else "png"
    if manifest:
        digest.update(f"{format} {manifest.quality} {manifest.short_side}\n".encode())
        digest.update(f"{manifest.checksum}\n".encode())
    if (root / MADE_BY).exists():
        digest.update((root / MADE_BY).read_bytes())
    for name in table.names_F[table.video_offsets[:-1]].tolist():
        try:
            status = (root / FRAMES_FOLDER / file_of(name, format)).stat()
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
        except FileNotFoundError:
            digest.update(f"{name} 0\n".encode())
    return f"sha256:{digest.hexdigest()}"
