"""The exception for input that the user can mend."""

from collections.abc import Sequence


class InputError(ValueError):
    """Bad input, told in one sentence that names the thing and the way out.

    Entry points catch it, print the sentence and exit with status 2, without a traceback.
    """


class TooLongError(InputError):
    """A sequence does not fit into a block."""

    def __init__(
        self, sequence: int, length: int, longest: int, t_max: int, name: str = ""
    ) -> None:
        self.facts = (sequence, length, longest, t_max)
        super().__init__(
            f"sequence {name or sequence} has {length} frames but t_max is {t_max}; raise t_max "
            f"to {longest}, or set long=split or long=truncate"
        )

    def named(self, names: Sequence[str]) -> "TooLongError":
        """The same error with the name of the sequence for its number."""
        return TooLongError(*self.facts, name=names[self.facts[0]])

    def __reduce__(self):
        return TooLongError, self.facts
