"""Data sets that a study makes of the synthetic videos, and what it reads of speakers."""

import numpy as np
import torch

from datasets.annotations.frame_names import frame_number
from datasets.build import build_source
from experiments import open_questions, speakers
from tests.training.conftest import WORLD


def config(root, **keys):
    keys |= {"name": "thinned", "root": str(root), "frame_size": [32, 32]}
    return open_questions.ChangedConfig(**vars(WORLD) | keys)


def test_frames_are_left_out_at_random_and_gaps_grow(data_root):
    configs = (config(data_root, left_out=share) for share in (0, 0.5, 0.5, 0.95))
    whole, thin, again, bare = (build_source(cfg, "train") for cfg in configs)
    assert thin.names == whole.names == bare.names
    names = [[frame.name for frame in video.frames] for video in thin.videos]
    assert names == [[frame.name for frame in video.frames] for video in again.videos]
    assert bare.lengths.sum() < thin.lengths.sum()
    assert abs(thin.lengths.sum() / whole.lengths.sum() - 0.5) < 0.2
    for video in thin.videos:
        numbers = [frame_number(frame.name) for frame in video.frames]
        assert [frame.gap for frame in video.frames] == [0, *np.diff(numbers)]


def test_the_start_table_of_a_stream_is_what_tells_reading_alone_from_reading_on(monkeypatch):
    monkeypatch.setattr(speakers, "EPOCHS", 2)
    torch.manual_seed(0)
    items = [(torch.randn(9, 12), torch.full((9,), n % 9)) for n in range(20)]
    rows = [speakers.name_speakers(items, items, True, 0.01, seed) for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]
    assert rows[0]["alone"] > rows[0]["stream"]
