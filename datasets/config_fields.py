"""Fields of configs, for all packages above `bload`: help, values, and the check of both."""

import sys
from collections.abc import Collection, Iterator
from dataclasses import MISSING, field, fields
from typing import Any, ClassVar

from bload.errors import InputError, any_of, check_choice


def key(
    help: str,
    default: Any = MISSING,
    *,
    factory: Any = MISSING,
    defining: bool = True,
    **traits: Any,
) -> Any:
    """Declare a key.

    Args:
        help: its meaning, as ``--help`` prints it.
        factory: makes a default that can be changed, such as a list.
        defining: False if runs may differ in it, as it changes neither results nor figures: then it
            is not part of a run's name, and may be another when the run resumes.
        traits: what else `field` keeps as metadata.
    """
    metadata = {"help": help, "defining": defining, **traits}
    return field(default=default, default_factory=factory, metadata=metadata)


def number(
    minimum: float, maximum: float | None, help: str, default: Any = MISSING, **traits: Any
) -> Any:
    """Declare a finite number from `minimum` to `maximum`; None as `maximum` means no bound.

    A default of None makes ``null`` a value too.
    """
    return key(help, default, bounds=(minimum, maximum), **traits)


def choice(options: Collection[str], help: str, default: Any = MISSING, **traits: Any) -> Any:
    """Declare a name among `options`; a default of None makes ``null`` a value too.

    ``--help`` prints the options before `help`. They may grow later.
    """
    return key(help, default, options=options, **traits)


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
                minimum, maximum = declared.metadata["bounds"]
                if not minimum <= value <= (sys.float_info.max if maximum is None else maximum):
                    bounds = f"{minimum} to {maximum}"
                    if maximum is None:
                        bounds = f"a finite number, at least {minimum}"
                    or_null = ", or null" if null else ""
                    raise InputError(f"{name} is {value}; give {bounds}{or_null}")
            if "options" in declared.metadata:
                check_choice(name, value, declared.metadata["options"])


def key_help(config: type) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of every key of a config group."""
    for declared in fields(config):
        if help := declared.metadata.get("help"):
            if options := declared.metadata.get("options"):
                help = f"{any_of(options)}: {help}"
            yield declared.name, help
