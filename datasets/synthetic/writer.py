"""Write a synthetic root: the files and structures of Action Genome.

A root is written into a sibling folder and renamed when complete, so an existing root is whole. Its
``synthetic.json`` has the knobs that it was made from.
"""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from bload.errors import InputError, differences
from datasets.annotations.read import FRAMES_FOLDER, KNOBS_FILE, OBJECTS_FILE, PERSONS_FILE
from datasets.annotations.vocabulary import GROUPS, OBJECTS, RELATIONS
from datasets.files import lock_folder, reading
from datasets.synthetic.painter import paint
from datasets.synthetic.script import COUNTS, NO_OBJECT, NO_PERSON, Script, write_scripts
from datasets.synthetic.world import SPLITS, VERSION, World


def make_if_missing(root: Path | str, **knobs: Any) -> Path:
    """Make a synthetic root at `root` if none exists, and return it; knobs as in `World`.

    Concurrent processes wait for the one that writes. Raises `InputError` if something else is
    there, or a synthetic root of other knobs, naming both values of each.
    """
    root, world = Path(root), World(**knobs)
    if not (root / KNOBS_FILE).exists():
        with lock_folder(root):
            if not (root / KNOBS_FILE).exists():  # another process may have made it
                _write_root(root, world)
    with reading(root / KNOBS_FILE, "put it back, or make another root"):
        saved_world = dict(json.loads((root / KNOBS_FILE).read_text()))
    if changes := differences(saved_world, {"version": VERSION} | world.knobs):
        raise InputError(
            f"the synthetic root {root} was made differently: {changes}; "
            "ask for what it holds (dataset.KEY=VALUE), or give another dataset.root"
        )
    return root


def _write_root(root: Path, world: World) -> None:
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InputError(
            f"{root} exists, is not empty and holds no synthetic data, and is never overwritten; "
            "give another path, or dataset=action_genome for videos of your own"
        )
    if root.is_mount():
        raise InputError(f"{root} is a mount point; give a folder in it")
    root = root.resolve()  # a link to an empty folder stays
    partial = root.parent / f".{root.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "annotations").mkdir(parents=True)
    scripts = [script for split in SPLITS for script in write_scripts(world, split)]
    _write_annotations(partial / "annotations", scripts)
    total = sum(len(script.kind_F) for script in scripts)
    words = "dataset=action_genome reads what exists"
    print(f"making {len(scripts):,} synthetic videos at {root} ({words})", flush=True)
    with tqdm(total=total, desc=f"drawing {root.name}", unit="frame", disable=None) as bar:
        for script in scripts:
            (partial / FRAMES_FOLDER / script.name).mkdir(parents=True)
            for position in range(len(script.kind_F)):
                image = Image.fromarray(paint(script, position))
                image.save(partial / FRAMES_FOLDER / script.file_name(position), compress_level=1)
                bar.update()
    manifest = {"version": VERSION} | world.knobs
    (partial / KNOBS_FILE).write_text(json.dumps(manifest, indent=2) + "\n")
    os.replace(partial, root)


def _write_annotations(folder: Path, scripts: list[Script]) -> None:
    entries_of, person_of = {}, {}
    for script in scripts:
        for position in range(len(script.kind_F)):
            name = script.file_name(position)
            entries_of[name] = object_entries(script, position)
            person_of[name] = person_entry(script, position)
    for file, value in ((OBJECTS_FILE, entries_of), (PERSONS_FILE, person_of)):
        with (folder / file).open("wb") as stream:
            pickle.dump(value, stream, protocol=4)


def object_entries(script: Script, position: int) -> list[dict[str, Any]]:
    """Return the list in Action Genome's object file for frame `position` of the files."""
    t, kind = int(script.source_F[position]), int(script.kind_F[position])
    entries = []
    for m, object_class in enumerate(script.classes_M.tolist()):
        visible = kind != NO_OBJECT and bool(script.visible_TM[t, m])
        x1, y1, x2, y2 = map(float, script.object_boxes_TM4[t, m])
        names = [[RELATIONS[r] for r in group] for group in script.relations(t, m)]
        tag = f"{script.name}/{OBJECTS[object_class].replace('/', '_')}/{position + 1:06d}"
        entries.append(
            {
                "class": OBJECTS[object_class],
                "bbox": (x1, y1, x2 - x1, y2 - y1) if visible else None,
            }
            | dict(zip(GROUPS, names if visible else [None] * 3, strict=True))
            | {"metadata": {"tag": tag, "set": script.split}, "visible": visible}
        )
    return entries


def person_entry(script: Script, position: int) -> dict[str, Any]:
    """Return the entry in Action Genome's person file for frame `position` of the files.

    Every tenth frame has a second, less certain box: row 0 is the person.
    """
    t, kind = int(script.source_F[position]), int(script.kind_F[position])
    box_14 = script.person_boxes_T4[t : t + 1].astype(np.float32)
    if kind == NO_PERSON:
        box_n4 = box_14[:0]
    elif kind == COUNTS and position % 10 == 9:
        box_n4 = np.concatenate([box_14, script.object_boxes_TM4[t, :1].astype(np.float32)])
    else:
        box_n4 = box_14
    rows = len(box_n4)
    return {
        "bbox": box_n4,
        "bbox_score": np.array([0.99, 0.6], dtype=np.float32)[:rows],
        "bbox_size": (script.image_size, script.image_size),
        "bbox_mode": "xyxy",
        "keypoints": np.zeros((rows, 17, 3), dtype=np.float32),
        "keypoints_logits": np.zeros((rows, 17), dtype=np.float32),
    }
