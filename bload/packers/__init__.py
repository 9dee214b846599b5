"""Packers: lengths -> plan, one pure numpy function a file.

    pack(lengths, t_max, rng, **options) -> Plan

No file, clock, rank or global random state is touched, so the same arguments give the same plan on
every rank and machine.
"""

import inspect
from operator import index

import numpy as np

from bload.errors import InputError
from bload.packers import bload, bload_exact, mix, naive, sampling
from bload.plan import Plan, check_lengths

PACKERS = {
    "naive": naive.pack,
    "sampling": sampling.pack,
    "mix": mix.pack,
    "bload": bload.pack,
    "bload_exact": bload_exact.pack,
}
"""Name -> packer. Add your own: any function of that signature will do."""

CUTS_CLIPS = frozenset({"sampling", "mix"})
"""Packers whose block is one clip, so that their t_max is the clip's length (the paper: the mean
length), where the others' is at least the longest sequence."""


def natural_t_max(lengths: np.ndarray, packer: str) -> int:
    """The paper's block size: floor(mean length) for the clip cutters, else the longest length."""
    return int(np.mean(lengths)) if packer in CUTS_CLIPS else int(np.max(lengths))


def packer_options(packer: str) -> dict[str, str]:
    """The options of a packer with their defaults."""
    parameters = inspect.signature(PACKERS[packer]).parameters.values()
    return {p.name: p.default for p in parameters if p.kind == p.KEYWORD_ONLY}


def make_plan(
    lengths: np.ndarray,
    packer: str,
    t_max: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    **options,
) -> Plan:
    """The plan of one epoch: a pure function of its arguments.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        packer: a key of `PACKERS`.
        t_max: slots in a block; None takes `natural_t_max`.
        seed, epoch: the random stream is ``np.random.default_rng([seed, epoch])``.
        options: the packer's own.

    Raises:
        InputError: unknown packer or option, a number out of range, a length that does not fit.
    """
    if packer not in PACKERS:
        raise InputError(f"there is no loader {packer!r}; choose one of {', '.join(PACKERS)}")
    pack = PACKERS[packer]
    known = packer_options(packer)
    for option in options:
        if option not in known:
            raise InputError(
                f"loader {packer} has no option {option!r}; it has {', '.join(known) or 'none'}"
            )
    lengths = check_lengths(lengths)
    t_max = natural_t_max(lengths, packer) if t_max is None else index(t_max)
    if t_max < 1:
        raise InputError(f"t_max is {t_max}; a block needs at least 1 slot")
    if t_max >= 2**31:
        raise InputError(f"t_max is {t_max}; a block has at most {2**31 - 1} slots")
    if seed < 0 or epoch < 0:
        raise InputError(f"seed is {seed} and epoch is {epoch}; both count from 0")
    return pack(lengths, t_max, np.random.default_rng([seed, epoch]), **options)
