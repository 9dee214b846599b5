"""Collects problems by kind, to report the count of each kind with its first examples."""

import reprlib
from typing import Any

from bload import InputError

EXAMPLES = 3
_LONGEST = 200  # characters of one example


class Problems:
    """Problems by kind, in the order in which the kinds were first met."""

    def __init__(self) -> None:
        self.examples: dict[str, dict[str, None]] = {}
        """Kind -> its examples, each once."""

    def add(self, kind: str, *examples: str) -> None:
        """Add problems, each once. `kind` is a plural (``missing frames``)."""
        self.examples.setdefault(kind, {}).update(dict.fromkeys(examples))

    def __len__(self) -> int:
        return sum(map(len, self.examples.values()))

    def sentences(self) -> list[str]:
        """Return one text per kind: the kind, the count, the first few."""
        texts = []
        for kind, examples in self.examples.items():
            first = "; ".join(example[:_LONGEST] for example in list(examples)[:EXAMPLES])
            hidden_count = len(examples) - EXAMPLES
            ending = f" and {hidden_count:,} more" if hidden_count > 0 else ""
            texts.append(f"{kind} ({len(examples):,}): {first}{ending}")
        return texts

    def raise_if_any(self, path: object, remedy: str) -> None:
        """Raise `InputError` about `path` with all problems and the remedy, if there are any."""
        if self.examples:
            raise InputError(f"{path}: {', and '.join(self.sentences())}; {remedy}")


def short_repr(value: Any) -> str:
    """Return a value for an error message, always short and in printable characters."""
    return reprlib.repr(value)[:_LONGEST]
