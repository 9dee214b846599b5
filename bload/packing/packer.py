"""What a packer is: a rule from lengths to a plan, and the traits that other code must know."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

from bload.packing.plan import Plan


@dataclass(frozen=True)
class Packer:
    """A packing rule with its traits.

    A rule is ``pack(lengths, t_max, rng, *, option="default") -> Plan``, see
    `bload.packing.packers`.
    """

    pack: Callable[..., Plan]
    cuts_clips: bool = False
    """A block is a single clip, so that ``t_max`` is by default the mean length."""
    one_each: bool = False
    """A block holds one sequence."""
    makes_batches: bool = False
    """The plan has the batches too; the rule gets ``batch_slots`` if it has that option."""

    def __call__(self, *args: Any, **options: Any) -> Plan:
        """Call the rule."""
        return self.pack(*args, **options)

    @property
    def options(self) -> dict[str, Any]:
        """Options of the rule with their defaults."""
        parameters = signature(self.pack).parameters.values()
        return {p.name: p.default for p in parameters if p.kind == Parameter.KEYWORD_ONLY}
