"""Packers: lengths -> plan, one pure numpy function per file.

    def pack(lengths, t_max, rng, *, option="default") -> Plan

``lengths`` is int64 ``(sequences,)``, at least 1 each; ``t_max`` is the number of slots in a block;
``rng`` is a `numpy.random.Generator`, the only source of randomness. A packer uses no file, clock,
rank or global random state, so the same arguments give the same plan on every rank and machine.
Options are keyword-only, with defaults that JSON can hold. The option ``long`` says what happens to
sequences longer than `t_max`, see `whole_pieces`.

Add your own by ``PACKERS["mine"] = pack``. If it keeps sequences whole, let it take ``long`` and
pass it to `whole_pieces`. If it cuts clips, puts one sequence into a block or makes the batches,
say so: ``PACKERS["mine"] = Packer(pack, one_each=True)``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from bload.errors import InputError, check_choice, check_whole, suggest
from bload.lengths import check_lengths
from bload.packing import bload, bload_exact, bucket, mix, naive, ragged, sampling, single
from bload.packing.block_sizes import check_sizes, pack_block_sizes
from bload.packing.carry import pack_carry
from bload.packing.pieces import Long, LongWithoutCarry, check_fit
from bload.packing.plan import Plan


@dataclass(frozen=True)
class Packer:
    """A packing rule, ``help(bload.packing.NAME)``, and its traits, False unless given."""

    pack: Callable[..., Plan]
    cuts_clips: bool = False
    """A block is a single clip, so that ``t_max`` is by default the mean length."""
    one_each: bool = False
    """A block holds one sequence."""
    makes_batches: bool = False
    """The plan has the batches too; the rule gets ``batch_slots`` if it has that option."""
    keeps_short: bool = False
    """Sequences shorter than a clip are kept, beside clips of longer ones."""

    @property
    def options(self) -> dict[str, Any]:
        """Options of the rule with their defaults."""
        parameters = signature(self.pack).parameters.values()
        return {p.name: p.default for p in parameters if p.kind == Parameter.KEYWORD_ONLY}


OTHER_NAMES = {  # arguments of DataLoader
    "batch_size": "set batch_slots to sequences per batch times their mean length",
    "persistent_workers": "leave it out, since they stay between epochs",
    "shuffle": "leave it out, since set_epoch draws new blocks",
    "sampler": "leave it out, since each rank takes its own blocks",
    "drop_last": 'set last="drop"',
    "collate_fn": "leave it out, or use BlockSampler and BlockDataset in a DataLoader",
}
PACKERS: dict[str, Packer | Callable[..., Plan]] = {
    "naive": Packer(naive.pack, one_each=True),
    "sampling": Packer(sampling.pack, cuts_clips=True),
    "mix": Packer(mix.pack, cuts_clips=True, keeps_short=True),
    "single": Packer(single.pack, makes_batches=True),
    "bucket": Packer(bucket.pack, makes_batches=True),
    "ragged": Packer(ragged.pack, makes_batches=True),
    "bload": bload.pack,
    "bload_exact": bload_exact.pack,
}
"""Packers by name, in the order of the table."""


def find_packer(name: str) -> Packer:
    """Return the packer of a name, or raise `InputError`."""
    check_choice("packer", name, PACKERS)
    pack = PACKERS[name]
    return pack if isinstance(pack, Packer) else Packer(pack)


def check_packer_options(packer: str, options: Iterable[str], *callers: Callable[..., Any]) -> None:
    """Raise `InputError` for a name that neither the packer nor a caller has."""
    known = find_packer(packer).options
    parameters = [p for caller in callers for p in signature(caller).parameters.values()]
    names = [*known, *(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)]
    for option in options:
        if option not in names:
            raise InputError(
                f"{option!r} is neither an argument nor an option of the packer {packer} "
                f"(options: {', '.join(known) or 'none'})"
                + ("; " + OTHER_NAMES[option] if option in OTHER_NAMES else suggest(option, names))
            )


def natural_t_max(lengths: ArrayLike, packer: str, multiple_of: int = 1) -> int:
    """Return the default block size: floor(mean length) for clips, else the longest length.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        multiple_of: the size is rounded to a multiple of this; that of clips down, others up.
    """
    lengths = np.asarray(lengths)
    if find_packer(packer).cuts_clips:
        return max(int(lengths.mean()) // multiple_of, 1) * multiple_of
    return -(-int(lengths.max()) // multiple_of) * multiple_of


def make_plan(
    lengths: ArrayLike,
    packer: str,
    t_max: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    *,
    block_sizes: Sequence[int] = (),
    multiple_of: int = 1,
    rng: np.random.Generator | None = None,
    **options: Any,
) -> Plan:
    """Make the plan of one epoch; equal arguments give equal plans.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        t_max: slots in a block; None takes `natural_t_max`.
        seed: random seed; `rng` is by default ``np.random.default_rng([seed, epoch])``.
        block_sizes: block sizes, `t_max` the largest; empty for `t_max` alone.
        multiple_of: slots of every segment and block are a multiple of this, see `Planner`.

    Raises:
        InputError: unknown packer or option, a number out of range, a length that does not fit.
    """
    rule = find_packer(packer)
    check_packer_options(packer, options, make_plan)
    long = {**rule.options, **options}.get("long")
    if "long" in options:
        check_choice("long", long, get_args(LongWithoutCarry if rule.makes_batches else Long))
    lengths = check_lengths(lengths)
    multiple_of = check_whole("multiple_of", multiple_of, 1)
    t_max = natural_t_max(lengths, packer, multiple_of) if t_max is None else t_max
    t_max = check_whole("t_max", t_max, 1, 2**31 - 1)
    entropy = check_whole("seed", seed, 0), check_whole("epoch", epoch, 0)
    rng = rng or np.random.default_rng(entropy)
    sizes = check_sizes(block_sizes, t_max)
    if sizes and rule.makes_batches:
        raise InputError(f"{packer} makes batches of its own sizes; leave block_sizes out")
    if sizes and long == "carry":
        raise InputError("long=carry needs blocks of one size; leave block_sizes out")
    if bad := [size for size in (t_max, *sizes) if size % multiple_of]:
        key = "t_max is" if bad[0] == t_max else "block_sizes has"
        raise InputError(f"{key} {bad[0]}; give multiples of {multiple_of}, as multiple_of is")
    if multiple_of > 1 and long in ("carry", "split"):
        raise InputError(f"multiple_of={multiple_of} does not go with long={long}; leave one out")
    if multiple_of > 1 and "batch_slots" in options:
        options["batch_slots"] //= multiple_of
    check_fit(lengths, t_max, long, None, multiple_of, carries=not (rule.makes_batches or sizes))
    multiples = lengths if multiple_of == 1 else -(-lengths // multiple_of)
    if rule.cuts_clips and multiple_of > 1:  # clips are of whole multiples
        is_cut = lengths > t_max if rule.keeps_short else slice(None)
        multiples[is_cut] = lengths[is_cut] // multiple_of
    packed = multiples, t_max // multiple_of
    if long == "carry":
        options.pop("long", None)
        plan = pack_carry(rule.pack, *packed, rng, one_each=rule.one_each, **options)
    elif not sizes:
        plan = rule.pack(*packed, rng, **options)
    else:
        sizes = tuple(size // multiple_of for size in sizes)
        one_each = rule.one_each or rule.cuts_clips
        plan = pack_block_sizes(rule.pack, multiples, sizes, rng, one_each=one_each, **options)
    if not isinstance(plan, Plan):
        raise InputError(f"the packer {packer} returned a {type(plan).__name__}; return a Plan")
    if multiple_of == 1:
        return plan
    first = plan.first * multiple_of
    return replace(
        plan,
        t_max=plan.t_max * multiple_of,
        sequence_lengths=lengths,
        first=first,
        length=np.minimum(plan.length * multiple_of, lengths[plan.sequence] - first),
        slots=plan.slots * multiple_of,
        multiple_of=multiple_of,
    )
