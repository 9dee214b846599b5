import numpy as np
import pytest

from bload.lengths import action_genome_lengths
from datasets.synthetic.lengths import draw_lengths


@pytest.mark.parametrize(
    ("split", "videos", "frames"), [("train", 7464, 166_785), ("test", 1737, 54_371)]
)
def test_the_full_size_has_exactly_the_real_histogram(split, videos, frames):
    lengths = draw_lengths(split, videos, np.random.default_rng(5))
    assert lengths.sum() == frames
    np.testing.assert_array_equal(np.sort(lengths), np.sort(action_genome_lengths(split)))


@pytest.mark.parametrize(("split", "videos", "mean"), [("train", 200, 22.345), ("test", 60, 31.3)])
def test_fewer_videos_keep_the_mean_and_the_long_ones(split, videos, mean):
    lengths = draw_lengths(split, videos, np.random.default_rng(0))
    assert abs(lengths.mean() - mean) < 0.2
    assert lengths.min() <= 4
    assert lengths.max() > 70


def test_only_the_order_depends_on_the_generator():
    one, other = (draw_lengths("train", 200, np.random.default_rng(seed)) for seed in (1, 2))
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(np.sort(one), np.sort(other))
