"""A count of operator calls: how much a step asks of the machine, however long it takes."""

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class CallCounter(TorchDispatchMode):
    """Counts the operators that are called within it, those of views too, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[str(func)] += 1
        return func(*args, **(kwargs or {}))
