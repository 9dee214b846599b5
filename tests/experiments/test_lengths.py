"""The laws are those that were published, and large blocks find partners for long sequences."""

import numpy as np
import pytest

from experiments.lengths import DOUBLE, LAWS, count

EVEN = (np.arange(400_000) + 0.5) / 400_000


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_law_meets_its_published_quantiles_mean_and_deviation(law):
    percent = law.percent or 100 * np.cumsum([0, *law.counts]) / sum(law.counts)
    found = np.percentile(law.quantiles(EVEN), percent[1:-1])
    assert found == pytest.approx(law.lengths[1:-1], rel=0.01, abs=1)
    assert law.quantiles(np.array([0, 1])).tolist() == [law.lengths[0], law.lengths[-1]]
    lengths = law.quantiles(EVEN)
    assert lengths.mean() == pytest.approx(law.mean, rel=0.02)
    assert law.std is None or lengths.std() == pytest.approx(law.std, rel=0.05)


def test_sequences_longer_than_half_a_block_find_partners_in_one_twice_as_long():
    found = count("own", [np.array([100, *[60] * 299])], ranks=1).set_index("loader")
    assert found.times.bload_exact == 1
    assert found.times[DOUBLE] == pytest.approx(1.5, rel=0.02)
