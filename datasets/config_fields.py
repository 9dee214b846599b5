"""Fields of configs, for all packages above `bload`: meanings, values, and the check of both."""

import sys
from collections.abc import Collection, Iterator
from dataclasses import MISSING, field, fields
from typing import Any, ClassVar

from bload.errors import InputError, any_of, check_choice


def key(words: str, default: Any = MISSING, *, defining: bool = True, **traits: Any) -> Any:
    """Declare a key.

    Args:
        words: its meaning, as ``--help`` prints it.
        defining: False if it does not change what is trained: then it is not part of a run's name,
            and may differ when the run resumes.
        traits: what else `field` keeps as metadata.
    """
    metadata = {"words": words, "defining": defining, **traits}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def number(
    minimum: float, maximum: float | None, words: str, default: Any = MISSING, **traits: Any
) -> Any:
    """Declare a finite number from `minimum` to `maximum`; None as `maximum` means no bound.

    A default of None makes ``null`` a value too.
    """
    return key(words, default, bounds=(minimum, maximum), **traits)


def choice(options: Collection[str], words: str, default: Any = MISSING, **traits: Any) -> Any:
    """Declare a name among `options`; a default of None makes ``null`` a value too.

    ``--help`` prints the options before `words`. They may grow later.
    """
    return key(words, default, options=options, **traits)


class Checked:
    """Base of config groups; checks numbers and names as they are declared."""

    prefix: ClassVar[str] = ""
    """Name before the keys, with its dot."""

    def __post_init__(self) -> None:
        for declared in fields(self):  # type: ignore[arg-type]
            value, name = getattr(self, declared.name), f"{self.prefix}{declared.name}"
            null = declared.default is None
            if value is None and null:
                continue
            if "bounds" in declared.metadata:
                least, most = declared.metadata["bounds"]
                if not least <= value <= (sys.float_info.max if most is None else most):
                    bounds = f"{least} to {most}"
                    if most is None:
                        bounds = f"a finite number, at least {least}"
                    raise InputError(f"{name} is {value}; give {bounds}{', or null' * null}")
            if "options" in declared.metadata:
                check_choice(name, value, declared.metadata["options"])


def meanings(config: type) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of every key of a config group."""
    for declared in fields(config):
        if words := declared.metadata.get("words"):
            if options := declared.metadata.get("options"):
                words = f"{any_of(options)}: {words}"
            yield declared.name, words
