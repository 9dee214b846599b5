"""Source of a data set, from its config.

A new data set is a file with a `DatasetConfig` subclass for its keys and a function (config, split)
-> `VideoSource`, and an entry in `DATASETS`. Modules that need torch are imported in the
functions, so that configs can be checked without it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bload.errors import InputError, check_choice
from datasets.annotations.read import KNOBS_FILE, read_annotations
from datasets.config import DatasetConfig, SyntheticConfig
from datasets.files import reading

if TYPE_CHECKING:
    from datasets.source import VideoSource


def action_genome(cfg: DatasetConfig, split: str) -> "VideoSource":
    """Open an Action Genome root, real or synthetic."""
    from datasets.source import VideoSource

    height, width = cfg.frame_size
    options: dict[str, Any] = {"small_boxes": cfg.small_boxes, "validation": cfg.validation}
    videos = read_annotations(cfg.root, split, **options).videos
    return VideoSource(cfg.root, split, videos, (height, width), cache=cfg.cache)


def synthetic(cfg: SyntheticConfig, split: str) -> "VideoSource":
    """Open a synthetic root; make it first if it is not there."""
    from datasets.synthetic.writer import make_if_missing

    make_if_missing(cfg.root, **cfg.knobs)
    return action_genome(cfg, split)


DATASETS: dict[str, tuple[type[DatasetConfig], Callable[..., Any]]] = {
    "action_genome": (DatasetConfig, action_genome),
    "synthetic": (SyntheticConfig, synthetic),
}
"""``dataset.name`` -> config class and builder."""


def build_source(cfg: DatasetConfig, split: str) -> "VideoSource":
    """Open one split of the data set that a config names, such as ``train`` or ``validation``.

    Raises `InputError` for an unknown name, and for a root that is missing, broken or made from
    other values.
    """
    check_choice("dataset.name", cfg.name, DATASETS)
    _, build = DATASETS[cfg.name]
    return build(cfg, split)


def open_to_score(cfg: DatasetConfig, split: str) -> "VideoSource":
    """Open videos to evaluate on, with yardsticks if they are the synthetic ones, unchanged.

    Raises:
        InputError: a frame has no relation, so that it cannot be scored; or as `build_source`.
    """
    source = build_source(cfg, split)
    source.check_labelled()
    if isinstance(cfg, SyntheticConfig) and cfg.name == "synthetic":
        from datasets.synthetic.yardsticks import make_yardsticks

        source.yardsticks = make_yardsticks(source, cfg)
    return source


def saved_config(
    saved: dict[str, Any], other_root: str | None = None, cache: str | None = None
) -> DatasetConfig:
    """Return the config of the data that a checkpoint's model was trained on, not augmented.

    Args:
        saved: the group ``dataset`` of the checkpoint's config.
        other_root: root of data to take instead; in Action Genome's files, real or synthetic.

    Raises:
        InputError: the data are missing, and none are made in their place; or the config is of
            another version.
    """
    check_choice("dataset.name", saved["name"], DATASETS)
    schema, build = DATASETS[saved["name"]]
    saved = {**saved, "root": other_root or saved["root"]}
    root = Path(saved["root"])
    if other_root and build in (action_genome, synthetic):
        values = {key: saved[key] for key in ("root", "frame_size", "small_boxes", "validation")}
        values["cache"] = cache
        if not (file := root / KNOBS_FILE).exists():
            return DatasetConfig("action_genome", **values)
        with reading(file, "put it back, or give another root"):
            knobs = json.loads(file.read_text())
            del knobs["version"]
            return SyntheticConfig("synthetic", **values, **knobs)
    if not (root / KNOBS_FILE if issubclass(schema, SyntheticConfig) else root).exists():
        raise InputError(
            f"the data of the checkpoint are not in {root.absolute()}, and none are made for it; "
            "put them back there, or evaluate on others by eval.py root=ROOT"
        )
    try:
        return schema(**{**saved, "augment": None, "cache": cache})
    except TypeError as error:
        raise InputError(f"the checkpoint's data set is of another version: {error}") from error
