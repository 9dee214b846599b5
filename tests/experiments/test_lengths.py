"""The laws are those that were published, and large blocks find partners for long sequences."""

import numpy as np
import pytest

from experiments.lengths import DOUBLE, LAWS, count, percentages, quantiles

EVEN = (np.arange(400_000) + 0.5) / 400_000


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_law_meets_its_published_quantiles_mean_and_deviation(law):
    lengths, known = quantiles(law, EVEN), law["lengths"]
    found = np.percentile(lengths, percentages(law)[1:-1])
    assert found == pytest.approx(known[1:-1], rel=0.01, abs=1)
    assert quantiles(law, np.array([0, 1])).tolist() == [known[0], known[-1]]
    assert lengths.mean() == pytest.approx(law["mean"], rel=0.02)
    assert "std" not in law or lengths.std() == pytest.approx(law["std"], rel=0.05)


def test_sequences_longer_than_half_a_block_find_partners_in_one_twice_as_long():
    found = count("own", [np.array([100, *[60] * 2399])]).set_index("loader")
    assert found.times.bload_exact == 1
    assert found.times[DOUBLE] == pytest.approx(1.5, rel=0.02)
