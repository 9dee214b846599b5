"""Properties with hostile input: about 15 cases each, or as many in all as HOSTILE_CASES says.

    HOSTILE_CASES=100000 python -m pytest tests/hostile

Cases of the default suite are the same each time; those of a long run are not.
"""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.hostile.watching import Refusal, watched

CASES = int(os.environ.get("HOSTILE_CASES", "0"))


def hostile(share: float, few: int = 20) -> Callable:
    """The settings of a property that makes `share` of all cases, and `few` in the default suite.

    A case has no deadline here: `watched` ends it.
    """
    return settings(
        max_examples=max(few, round(share * CASES)),
        derandomize=not CASES,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def refused_or(tmp_path_factory) -> Refusal:
    """Calls a function: gives its result, or None if it refuses its input in one sentence."""
    return watched(tmp_path_factory.getbasetemp())
