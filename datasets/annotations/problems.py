"""Collects problems by kind, to report the count of each kind with its first examples."""

import reprlib
from typing import Any

from bload.errors import InputError

SHOWN = 3
MOST_KINDS = 12
_LONGEST = 200  # characters of one example


class Problems:
    """Problems by kind, in the order in which the kinds were first met."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}  # kind -> examples, each once
        self.cause: Exception | None = None  # of the first problem with an exception

    def add(self, kind: str, *examples: str) -> None:
        """Add problems, each once. `kind` is a plural (``missing frames``)."""
        self._found.setdefault(kind, {}).update(dict.fromkeys(examples))

    def merge(self, other: "Problems") -> None:
        """Add all problems of `other`."""
        for kind, found in other._found.items():
            self.add(kind, *found)

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))

    def counts(self) -> dict[str, int]:
        """Return kind -> number of problems."""
        return {kind: len(found) for kind, found in self._found.items()}

    def sentences(self) -> list[str]:
        """Return one text per kind: the kind, the count, the first few."""
        texts = []
        for kind, found in self._found.items():
            first = "; ".join(example[:_LONGEST] for example in list(found)[:SHOWN])
            more = len(found) - SHOWN
            texts.append(f"{kind} ({len(found):,}): {first}{f' and {more:,} more' * (more > 0)}")
        more = len(texts) - MOST_KINDS
        return texts if more <= 0 else [*texts[:MOST_KINDS], f"and {more:,} more kinds of problems"]

    def refuse(self, what: object, remedy: str) -> None:
        """Raise `InputError` about `what` with all problems and the way out, if there are any."""
        if self._found:
            raise InputError(f"{what}: {', and '.join(self.sentences())}; {remedy}") from self.cause


def shown(value: Any) -> str:
    """Return a value for an error message, always short and in printable characters."""
    try:
        return reprlib.repr(value)[:_LONGEST]
    except (ValueError, RecursionError):  # an integer of too many digits
        return f"a {type(value).__name__}"
