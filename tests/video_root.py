"""A small root as one has it after the downloads: videos and annotations, no frames yet.

The synthetic world is drawn into videos, so that the annotations are right and a model can learn
from the frames once `datasets.prepare` has extracted them. A third of the videos is landscape, a
third portrait (the square world between bars), a third square. Most video frames have no
annotation, as in Action Genome.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE, SMALL_BOXES_FILE
from datasets.synthetic.painter import paint
from datasets.synthetic.script import Script, write_script
from datasets.synthetic.world import World
from datasets.synthetic.writer import object_entries, person_entry
from tests.datasets.video_making import encode

SIDE = 96
BARS_HW = ((0, 24), (24, 0), (0, 0))
"""Rows above and below, columns left and right of the world, by video."""
LENGTHS = {"train": (6, 9, 4, 7), "test": (5, 8, 3)}
"""Frames that count, by video."""


def make_video_root(root: Path) -> Path:
    """Write ``ROOT/videos/*.mp4`` and ``ROOT/annotations/`` at `root`, in about two seconds."""
    world = World(train_videos=1, test_videos=1, image_size=SIDE, seed=5, drop_rate=0.1)
    (root / "videos").mkdir(parents=True)
    (root / "annotations").mkdir()
    entries_of: dict[str, list[dict[str, Any]]] = {}
    person_of: dict[str, dict[str, Any]] = {}
    for split, lengths in LENGTHS.items():
        for index, length in enumerate(lengths):
            script = write_script(world, split, index, length)
            bars_hw = BARS_HW[index % len(BARS_HW)]
            for position in range(len(script.kind_F)):
                name = f"{script.name}/{annotated_number(position):06d}.png"
                entries_of[name] = _moved_entries(object_entries(script, position), bars_hw)
                person_of[name] = _moved_person(person_entry(script, position), bars_hw)
            encode(root / "videos" / script.name, _pictures(script, bars_hw))
    large_of = {name: [*filter(_is_large, entries)] for name, entries in entries_of.items()}
    for file, value in (
        (OBJECTS_FILE, entries_of),
        (SMALL_BOXES_FILE, large_of),
        (PERSONS_FILE, person_of),
    ):
        (root / "annotations" / file).write_bytes(pickle.dumps(value, protocol=4))
    return root


def annotated_number(position: int) -> int:
    """The number in its video, from 1, of annotated frame `position`: 1, 5, 7, 11, 13, ..."""
    return 1 + 3 * position + position % 2


def _pictures(script: Script, bars_hw: tuple[int, int]) -> list[np.ndarray]:
    """All frames of the video: each picture stays until the next annotated frame, then two more."""
    count = len(script.kind_F)
    rows, columns = bars_hw
    pictures = []
    for position in range(count):
        picture = np.pad(paint(script, position), ((rows, rows), (columns, columns), (0, 0)))
        pictures += [picture] * (annotated_number(position + 1) - annotated_number(position))
    return pictures


def _is_large(entry: dict[str, Any]) -> bool:
    """True if an entry stays in the file without boxes whose short side is 16 pixels or less."""
    return entry["bbox"] is None or min(entry["bbox"][2:]) > 16


def _moved_entries(entries: list[dict], bars_hw: tuple[int, int]) -> list[dict[str, Any]]:
    rows, columns = bars_hw
    moved = []
    for entry in entries:
        if entry["bbox"] is not None:
            x, y, width, height = entry["bbox"]
            entry = entry | {"bbox": (x + columns, y + rows, width, height)}
        moved.append(entry)
    return moved


def _moved_person(person: dict, bars_hw: tuple[int, int]) -> dict[str, Any]:
    rows, columns = bars_hw
    shift_4 = np.array([columns, rows, columns, rows], dtype=np.float32)
    size = (SIDE + 2 * columns, SIDE + 2 * rows)
    return person | {"bbox": person["bbox"] + shift_4, "bbox_size": size}
