"""Settings as plain values, which come out of JSON and `torch.load` as they went in."""

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a nest of settings with Python's numbers for numpy's, and lists for tuples."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
