"""Random annotations in Action Genome's formats that hit the edges of the rules, for tests."""

from typing import Any

import numpy as np

from datasets.annotations.vocabulary import GROUPS, OBJECTS, RELATIONS, without_separators

SIDES = (0.5, 15.999, 16.0, 16.5, 16.0001, 17.0, 100.0, 16, -5.0)
SEQUENCES = (tuple, list, np.array)


def random_annotations(rng: np.random.Generator) -> tuple[dict, dict]:
    """The dictionaries of the object file and of the person file, keys in random order."""
    objects, persons = {}, {}
    for index in range(int(rng.integers(1, 7))):
        video = f"{'ABC'[index % 3]}{index}{rng.choice(['', '-x', '.y', ' z'])}.mp4"
        split = str(rng.choice(["train", "test"]))
        for number in 1 + rng.choice(200, size=int(rng.integers(1, 9)), replace=False):
            name = f"{video}/{number:0{rng.integers(1, 8)}d}.png"
            objects[name] = random_entries(rng, split)
            for key, chance in ((name, 0.9), (f"{video}/{number + 500:06d}.png", 0.05)):
                if rng.random() < chance:  # a frame may be in one of the files alone
                    persons[key] = random_person(rng)
    return {key: objects[key] for key in rng.permutation(list(objects)).tolist()}, persons


def random_entries(rng: np.random.Generator, split: str) -> list[dict[str, Any]]:
    """The entries of a frame: none, a few, or up to nine; one may say another split."""
    count = int(rng.choice([0, 1, 2, 3, 9], p=[0.05, 0.4, 0.25, 0.2, 0.1]))
    entries = [random_entry(rng, split) for _ in range(count)]
    if entries and rng.random() < 0.1:
        other = {"train": "test", "test": "train"}[split]
        entries[int(rng.integers(count))]["metadata"]["set"] = other
    return entries


def random_entry(rng: np.random.Generator, split: str) -> dict[str, Any]:
    """An object, in sight or not, with values of all the types that files hold them in."""
    visible = bool(rng.random() < 0.75)
    spelt = rng.choice([str, without_separators, np.str_])
    box = [*rng.uniform(-5, 300, 2).tolist(), *(SIDES[at] for at in rng.integers(9, size=2))]
    groups = {
        group: [spelt(RELATIONS[at]) for at in rng.integers(members.start, members.stop, size=n)]
        for (group, members), n in zip(GROUPS.items(), (1, *rng.integers(6, size=2)), strict=True)
    }
    return {
        "class": spelt(OBJECTS[int(rng.integers(2, 37))]),
        "bbox": rng.choice(SEQUENCES)(box) if visible else None,
        "metadata": {"tag": "x", "set": rng.choice([str, np.str_])(split)},
        "visible": rng.choice([bool, np.bool_])(visible),
    } | (groups if visible else dict.fromkeys(groups))


def random_person(rng: np.random.Generator) -> dict[str, Any]:
    """The person file's entry for a frame: no box, one or two, as an array or as a list."""
    boxes = rng.uniform(0, 200, (int(rng.choice([0, 1, 2], p=[0.15, 0.7, 0.15])), 4))
    boxes = boxes.astype(np.float32)
    return {
        "bbox": boxes.tolist() if rng.random() < 0.2 else boxes,
        "bbox_size": rng.choice(SEQUENCES)((480, 270)),
        "bbox_mode": "xyxy",
    }
