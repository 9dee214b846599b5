"""Collects problems by kind, to report the count of each kind with its first examples."""

import reprlib
from itertools import islice
from typing import Any

from bload.errors import InputError

SHOWN = 3
MOST_KINDS = 12
_LONGEST = 200  # characters of one example


class Problems:
    """Problems by kind, in the order in which the kinds were first met."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}  # kind -> examples, each once

    def add(self, kind: str, example: str) -> None:
        """Add one problem, once. `kind` is a plural (``missing frames``)."""
        self._found.setdefault(kind, {})[example] = None

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))

    def counts(self) -> dict[str, int]:
        """Return kind -> number of problems."""
        return {kind: len(found) for kind, found in self._found.items()}

    def examples(self) -> dict[str, list[str]]:
        """Return kind -> the first `SHOWN` problems."""
        firsts = {kind: islice(found, SHOWN) for kind, found in self._found.items()}
        return {
            kind: [f"{e[:_LONGEST]}..." if len(e) > _LONGEST else e for e in first]
            for kind, first in firsts.items()
        }

    def as_list(self) -> list[dict[str, Any]]:
        """Return ``{"kind", "count", "first"}`` of each kind, for json."""
        counts, examples = self.counts(), self.examples()
        return [{"kind": kind, "count": counts[kind], "first": examples[kind]} for kind in counts]

    def sentences(self) -> list[str]:
        """Return one text per kind: the kind, the count, the first few."""
        texts, counts = [], self.counts()
        for kind, examples in islice(self.examples().items(), MOST_KINDS):
            more = counts[kind] - len(examples)
            rest = f" and {more:,} more" if more else ""
            texts.append(f"{kind} ({counts[kind]:,}): {'; '.join(examples)}{rest}")
        more = len(counts) - MOST_KINDS
        return [*texts, f"and {more:,} more kinds of problems"] if more > 0 else texts

    def refuse(self, what: object, remedy: str) -> None:
        """Raise `InputError` about `what` with all problems and the way out, if there are any."""
        if self._found:
            raise InputError(f"{what}: {', and '.join(self.sentences())}; {remedy}")


def shown(value: Any) -> str:
    """Return a value for an error message: short whatever it holds, in printable characters."""
    try:
        return reprlib.repr(value)[:_LONGEST]
    except (ValueError, RecursionError):  # an integer of too many digits
        return f"a {type(value).__name__}"
