"""Score a predictions file: ``python -m datasets.scoring FILE.parquet --root ROOT --split test``.

Predictions of any model, written in the format of `predictions_file`, are measured by the same
rules. --root, --split and --small-boxes default to those in the file. The file must have every
frame of the split; a frame without predictions has one row of nulls.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from bload import InputError
from datasets.annotations.read import read_annotations, trained_pairs
from datasets.annotations.rules import SMALL_BOXES
from datasets.annotations.targets import FrameTargets
from datasets.files import exit_on_input_error, write_whole
from datasets.scoring.predictions_file import read_metadata, read_predictions
from datasets.scoring.ranking import BORDERS
from datasets.scoring.recall import RecallMeter
from datasets.scoring.tables import format_recall, relation_rows, write_relations
from datasets.synthetic.world import SPLITS


def score(path: Path | str, targets: Sequence[FrameTargets], iou: str) -> RecallMeter:
    """Return the meter of all frames of a split, as predicted in the file at `path`.

    Raises `InputError` if the file is no predictions file, lacks a frame of the split, or has a
    frame that is not in it.
    """
    target_of = {target.name: target for target in targets}
    prediction_of = dict(read_predictions(path))
    if others := prediction_of.keys() - target_of.keys():
        raise InputError(
            f"{path} has frame {min(others)}, which is not one of the {len(target_of):,} frames "
            "that count; give the root, split and small boxes that it was made for"
        )
    if missing := target_of.keys() - prediction_of.keys():
        raise InputError(
            f"{path} lacks {len(missing):,} of {len(target_of):,} frames, such as {min(missing)}; "
            "give the small boxes that the file was made for, or add the frame, with a null in "
            "pair if nothing is predicted there"
        )
    meter = RecallMeter(iou)
    meter.update([*prediction_of.values()], [target_of[name] for name in prediction_of])
    return meter


@exit_on_input_error()
def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m datasets.scoring", description=__doc__)
    parser.add_argument("file", help="predictions, as eval.py predictions=FILE writes them")
    parser.add_argument("--root", help="data root; default: the one in the file")
    parser.add_argument("--split", choices=SPLITS, help="default: the one in the file")
    parser.add_argument("--iou", choices=BORDERS, default="inclusive")
    parser.add_argument("--small-boxes", choices=SMALL_BOXES, help="default: as in the file")
    parser.add_argument("--relations", help="csv file for the recall of every relation")
    parser.add_argument("--out", help="json file for the figures")
    args = parser.parse_args(arguments)
    metadata = read_metadata(args.file)
    root, split = args.root or metadata.get("root"), args.split or metadata.get("split")
    small_boxes = args.small_boxes or metadata.get("small_boxes")
    if not root or not split or not small_boxes:
        raise InputError(
            f"{args.file} does not name its root, split and small boxes; give --root, --split "
            "and --small-boxes; STTran has computed for SGDet and SGCls, keep for PredCls"
        )
    choices = {"small_boxes": small_boxes, "validation": metadata.get("validation", 0.0)}
    videos = read_annotations(root, split, **choices).videos
    targets = [frame for video in videos for frame in video.frames]
    trained_root = metadata.get("trained_root", root)
    if (pairs_KR := trained_pairs(Path(trained_root), **choices)) is None:  # it was moved
        trained_root, pairs_KR = root, trained_pairs(Path(root), **choices)
    meter = score(args.file, targets, args.iou)
    figures = meter.summary() | meter.unseen_summary(pairs_KR)
    model = metadata.get("checkpoint", args.file)
    print(f"{args.file}: {model}\n{root}, {split}: {figures['frames']:,.0f} frames")
    print(f"small boxes: {small_boxes}, IoU {args.iou}, unseen: not in train of {trained_root}\n")
    print(format_recall(figures))
    if args.relations:
        write_relations(args.relations, relation_rows(meter, model))
    if args.out:
        write_whole(args.out, json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
