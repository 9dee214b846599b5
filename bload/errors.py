"""Exceptions for invalid user input, and the checks that raise them."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from operator import index
from typing import Any


class InputError(ValueError):
    """Invalid user input. The message is one sentence: the invalid value and how to fix it.

    Command-line programs catch it, print the sentence and exit with status 2, without a traceback.
    Unprintable characters, such as a line break in a name, show as spaces.
    """

    def __str__(self) -> str:
        text = "".join(c if c.isprintable() else " " for c in super().__str__())
        return " ".join(text.split())


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 rank`` or ``2 ranks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def suggest(name: str, names: Collection[str]) -> str:
    """Return "; did you mean X?" for the nearest of the names, or ""."""
    nearest = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def any_of(names: Iterable[Any]) -> str:
    """Return names as ``a, b or c``."""
    *others, last = map(str, names)
    return f"{', '.join(others)} or {last}" if others else last


def check_choice(key: str, value: Any, choices: Collection[Any]) -> None:
    """Raise `InputError` unless the value of an option is one of `choices`."""
    if value not in [*choices]:
        raise InputError(f"{key} is {value!r}; choose {any_of(choices)}")


def check_whole(key: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """Return an option if it is a whole number from `least` to `most`, else raise `InputError`."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        end = f"to {most}" if most < 2**63 - 1 or (number or 0) > most else "on"
        raise InputError(f"{key} is {value!r}; give a whole number from {least} {end}")
    return number


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return "key was X and is Y" for every key whose values differ, in one string."""
    keys = [key for key in {**now, **was} if was.get(key) != now.get(key)]
    return "; ".join(f"{key} was {was.get(key)!r} and is {now.get(key)!r}" for key in keys)
