"""Blocks of few different lengths: how often to use which recipe, by linear programming.

    1,204.5 times |9 9 9 5|      a recipe is the lengths in a block; the fewest blocks, in
      310.0 times |9 7 7 7|      fractions of a block, must meet the counts of all lengths
       88.5 times |5 5 5 5 5 5|

The sum, rounded up, is a lower bound, and nearly always the optimum (Gilmore and Gomory, Operations
Research 9, 1961). Whole numbers of the recipes pack all but a few pieces. Columns are generated:
the next recipe is worth most at the present prices of lengths. Only elementwise arithmetic is used,
so that every machine rounds alike.
"""

import numpy as np

from bload.packing.pieces import shuffled_by_length

MAX_LENGTHS_TIMES_SLOTS = 20_000
"""Largest product of different lengths and slots; above it, this takes more than a second."""
STEPS_PER_LENGTH = 8
"""Recipes tried per different length before the best so far are taken."""
CLOSE = 1e-7
"""Tolerance for rounding errors."""


def whole_recipes(
    size_P: np.ndarray, t_max: int, rng: np.random.Generator
) -> tuple[np.ndarray, int, int]:
    """Pack most of P pieces of `size_P` frames by the best recipes.

    Returns:
        the block of every piece, ``(P,)``, -1 if it is left over; the number of blocks; and a
        lower bound on the blocks of any packing.
    """
    size_D, count_D = np.unique(size_P, return_counts=True)
    recipe_RD, times_R, bound = _best_recipes(size_D, count_D, t_max)
    whole_R = np.floor(times_R + CLOSE).astype(np.int64)
    block_RB = np.repeat(np.arange(len(whole_R)), whole_R)
    block_P = np.full(len(size_P), -1, dtype=np.int32)
    by_size = shuffled_by_length(size_P, rng)
    start_D = np.cumsum(count_D) - count_D
    for d, start in enumerate(start_D.tolist()):
        blocks = np.repeat(np.arange(len(block_RB)), recipe_RD[block_RB, d])
        block_P[by_size[start : start + len(blocks)]] = blocks
    return block_P, len(block_RB), bound


def _best_recipes(
    size_D: np.ndarray, count_D: np.ndarray, t_max: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return one recipe per length, ``(recipes, lengths)``, how often to use each, and a bound.

    This is the revised simplex method; `inverse_DR` is the inverse of the matrix whose rows are the
    recipes. The bound holds at every step (Farley, Operations Research 38, 1990): at prices where
    no block is worth more than 1, pieces are worth at most the number of blocks they need.
    """
    kinds, bound = len(size_D), 0
    recipe_RD = np.diag(t_max // size_D)
    inverse_DR = np.diag(1 / (t_max // size_D))
    times_R = count_D / (t_max // size_D)
    for _ in range(STEPS_PER_LENGTH * kinds):
        worth_D = inverse_DR.sum(1)
        new_D = _most_worth(size_D, worth_D, t_max)
        worth = float((new_D * worth_D).sum())
        bound = max(bound, int(np.ceil(times_R.sum() / max(worth, 1.0) - CLOSE * kinds)))
        if worth <= 1 + CLOSE:
            break
        used_R = (inverse_DR * new_D[:, None]).sum(0)
        shrinks = np.flatnonzero(used_R > CLOSE)
        ratio = times_R[shrinks] / used_R[shrinks]
        leaving = shrinks[ratio.argmin()]
        step = ratio.min()
        times_R = np.maximum(times_R - step * used_R, 0)
        times_R[leaving] = step
        column_D = inverse_DR[:, leaving] / used_R[leaving]
        inverse_DR = inverse_DR - column_D[:, None] * used_R
        inverse_DR[:, leaving] = column_D
        recipe_RD[leaving] = new_D
    return recipe_RD, times_R, bound


def _most_worth(size_D: np.ndarray, worth_D: np.ndarray, t_max: int) -> np.ndarray:
    """Return the recipe that is worth most, ``(lengths,)``: an unbounded knapsack."""
    best_T = np.zeros(t_max + 1)
    taken = np.full(t_max + 1, -1)
    fitting = np.searchsorted(size_D, np.arange(t_max + 1), "right").tolist()
    for slots in range(int(size_D[0]), t_max + 1):
        fits = fitting[slots]
        worths = best_T[slots - size_D[:fits]] + worth_D[:fits]
        kind = int(worths.argmax())
        if worths[kind] > best_T[slots - 1]:
            best_T[slots], taken[slots] = worths[kind], kind
        else:
            best_T[slots] = best_T[slots - 1]
    new_D = np.zeros(len(size_D), dtype=np.int64)
    slots = t_max
    while slots > 0:
        if taken[slots] < 0:
            slots -= 1
        else:
            new_D[taken[slots]] += 1
            slots -= int(size_D[taken[slots]])
    return new_D
