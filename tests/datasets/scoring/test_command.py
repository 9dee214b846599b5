"""Predictions scored from the command line: unseen pairs apart."""

import json

import numpy as np
import pytest

from datasets.annotations.read import read_annotations
from datasets.scoring.__main__ import main
from datasets.scoring.prediction import FramePrediction
from tests.datasets.annotations.making import frames, persons, write_root
from tests.datasets.scoring.drawing import write_predictions


def predict(target):
    """The true pair, with its relations one below the other; of a dish only the first."""
    scores_R = np.full(26, 0.01)
    count = 1 if target.name.startswith("C") else 4
    scores_R[target.relations_G2[:count, 1]] = 0.95 - np.arange(count) / 100
    boxes = target.person_box_4[None], target.object_boxes_M4
    one = np.ones(1)
    return FramePrediction(*boxes, target.object_classes_M, one, one, scores_R[None])


def test_unseen_pairs_are_scored_apart(tmp_path, capsys):
    seen = frames("A", [1, 2, 3]) | frames("B", [1, 2, 3], split="test")
    entries_of = seen | frames("C", [1, 2, 3], split="test", **{"class": "dish"})
    write_root(tmp_path, entries_of, persons(entries_of))
    targets = [f for video in read_annotations(tmp_path, "test").videos for f in video.frames]
    path, out = tmp_path / "p.parquet", tmp_path / "out.json"
    metadata = {"root": str(tmp_path), "split": "test", "small_boxes": "keep"}
    metadata["trained_root"] = str(tmp_path / "moved")
    write_predictions(path, [(target, predict(target)) for target in targets], metadata)

    main([str(path), "--out", str(out)])
    figures = json.loads(out.read_text())
    assert "unseen in training: 12 relations" in capsys.readouterr().out
    # Four labels a frame, two of them spatial. Of B all are in the list, of C one.
    assert figures["with/recall@20"] == pytest.approx((3 / 4 + 1 / 4) / 2)
    assert figures["with/recall@20_unseen"] == pytest.approx(1 / 4)
