"""Predictions scored from the command line: on true boxes, unseen pairs, validation videos."""

import copy
import json
import pickle
from collections import Counter

import numpy as np
import pytest

from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE, read_annotations
from datasets.annotations.vocabulary import GROUPS, OBJECTS, RELATIONS
from datasets.scoring.__main__ import main
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.ranking import CONSTRAINTS, KS
from tests.datasets.annotations.making import write_root
from tests.datasets.scoring.drawing import write_predictions
from tests.datasets.scoring.test_protocol import slow_list, slow_ranks


def write_copies(root, small_root, pairs):
    """Write a root with the test videos, and as training videos their copies without `pairs`."""
    files = (small_root / "annotations" / name for name in (OBJECTS_FILE, PERSONS_FILE))
    entries_of, person_of = (pickle.loads(file.read_bytes()) for file in files)
    tested = {n: e for n, e in entries_of.items() if e[0]["metadata"]["set"] == "test"}
    copies = {f"copy_{name}": copy.deepcopy(entries) for name, entries in tested.items()}
    for entry in (entry for entries in copies.values() for entry in entries):
        entry["metadata"]["set"] = "train"
        for group in GROUPS:
            labels = entry[group] or []
            entry[group] = [label for label in labels if (entry["class"], label) not in pairs]
    root.mkdir()
    write_root(root, tested | copies, person_of | {n: person_of[n[5:]] for n in copies})


def predict(target, rng):
    """Each pair twice, with drawn classes, scores and relations, as for SGCls."""
    row_P = np.repeat(np.arange(len(target.object_classes_M)), 2)
    P, classes_P, scores_2P = (
        len(row_P),
        target.object_classes_M[row_P],
        rng.random((2, len(row_P))),
    )
    classes_P = np.where(rng.random(P) < 0.3, rng.integers(1, 37, P), classes_P)
    boxes = np.tile(target.person_box_4, (P, 1)), target.object_boxes_M4[row_P]
    return FramePrediction(*boxes, classes_P, *scores_2P, rng.random((P, 26)) ** 0.2)


@pytest.mark.parametrize("left_out", [3, 0])
def test_true_boxes_are_scored_by_the_protocol_and_unseen_pairs_apart(
    left_out, small_root, tmp_path, capsys
):
    rng, root, path, out = np.random.default_rng(0), *map(tmp_path.joinpath, ("root", "p", "out"))
    targets = [f for video in read_annotations(small_root, "test").videos for f in video.frames]
    pairs_F = [
        [(OBJECTS[t.object_classes_M[m]], RELATIONS[r]) for m, r in t.relations_G2] for t in targets
    ]
    unseen = dict(Counter(pair for pairs in pairs_F for pair in pairs).most_common(left_out))
    write_copies(root, small_root, unseen)
    flags_F = [[pair in unseen for pair in pairs] for pairs in pairs_F]
    drawn = [(target, predict(target, rng)) for target in targets]
    write_predictions(path, drawn, {"root": str(root), "split": "test", "small_boxes": "keep"})
    main([str(path), "--out", str(out)])
    figures = json.loads(out.read_text())
    words = f"{sum(unseen.values()):,} relations" if unseen else "none in this split"
    assert f"unseen in training: {words}" in capsys.readouterr().out
    for constraint in CONSTRAINTS:
        places_F = [slow_ranks(slow_list(p, constraint), t, "inclusive") for t, p in drawn]
        for k in KS:
            recall = np.mean([np.mean(places < k) for places in places_F])
            assert figures[f"{constraint}/recall@{k}"] == pytest.approx(recall, abs=1e-9)
            unseen_F = (f < k for f in map(np.extract, flags_F, places_F) if len(f))
            assert figures.get(f"{constraint}/recall@{k}_unseen") == (
                pytest.approx(np.mean([*map(np.mean, unseen_F)]), abs=1e-9) if unseen else None
            )
    main([str(path), "--out", str(out), "--oed-filter"])
    filtered = json.loads(out.read_text())
    assert filtered["no/recall@50"] > figures["no/recall@50"]  # the second of each pair is gone
