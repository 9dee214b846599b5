"""Several things that are wrong, told together: how many of each kind, and the first few."""

import reprlib
from typing import Any

from bload.errors import InputError

SHOWN = 3
MOST_KINDS = 12
_LONGEST = 200  # characters of one example


class Problems:
    """What was found wrong, by kind, in the order in which kinds were first met."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}
        self._noted: set[tuple[str, str]] = set()

    def add(self, kind: str, example: str) -> None:
        """Note one thing, once. `kind` is a plural (``missing frames``); a few examples stay."""
        if (kind, example) in self._noted:
            return
        self._noted.add((kind, example))
        self._counts[kind] = self._counts.get(kind, 0) + 1
        examples = self._examples.setdefault(kind, [])
        if len(examples) < SHOWN:
            examples.append(example if len(example) <= _LONGEST else f"{example[:_LONGEST]}...")

    def __len__(self) -> int:
        return sum(self._counts.values())

    def counts(self) -> dict[str, int]:
        """Kind -> how many."""
        return dict(self._counts)

    def examples(self) -> dict[str, list[str]]:
        """Kind -> the first `SHOWN`."""
        return {kind: list(examples) for kind, examples in self._examples.items()}

    def sentences(self) -> list[str]:
        """One text a kind: the kind, how many, the first few."""
        kinds = list(self._counts)
        more = len(kinds) - MOST_KINDS
        rest = [f"and {more:,} more kinds of problems"] if more > 0 else []
        return [self._sentence(kind) for kind in kinds[:MOST_KINDS]] + rest

    def _sentence(self, kind: str) -> str:
        more = self._counts[kind] - len(self._examples[kind])
        rest = f" and {more:,} more" if more else ""
        return f"{kind} ({self._counts[kind]:,}): {'; '.join(self._examples[kind])}{rest}"

    def refuse(self, what: object, remedy: str) -> None:
        """Raise `InputError` about `what` with all that was noted and the way out, if anything."""
        if self._counts:
            raise InputError(f"{what}: {', and '.join(self.sentences())}; {remedy}")


def shown(value: Any) -> str:
    """A value for an error message: short whatever it holds, and in printable characters."""
    try:
        return reprlib.repr(value)[:_LONGEST]
    except (ValueError, RecursionError):  # an integer of too many digits
        return f"a {type(value).__name__}"
