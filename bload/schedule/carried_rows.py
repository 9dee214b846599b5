"""Rows for blocks that continue one another: the same row, one step later."""

import heapq

import numpy as np

from bload.packing.plan import Plan


def place_in_rows(plan: Plan, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the block in every row of every rank and step, -1 for a filler, ``(steps, rows)``.

    A chain of blocks that continue one another takes one row in successive steps. The longest are
    placed first, each into the row with the fewest blocks; its chains are shuffled, fillers follow.
    """
    successors = {before: b for b, before in enumerate(plan.continued.tolist()) if before >= 0}
    chains = []
    for head in np.flatnonzero(plan.continued < 0).tolist():
        chain = [head]
        while chain[-1] in successors:
            chain.append(successors[chain[-1]])
        chains.append(chain)
    chains = sorted((chains[i] for i in rng.permutation(len(chains))), key=len, reverse=True)
    row_chains: list[list[list[int]]] = [[] for _ in range(rows)]
    heap = [(0, int(tie), row) for row, tie in enumerate(rng.permutation(rows))]
    heapq.heapify(heap)
    for chain in chains:
        filled, tie, row = heapq.heappop(heap)
        row_chains[row].append(chain)
        heapq.heappush(heap, (filled + len(chain), tie, row))
    grid = np.full((max(filled for filled, _, _ in heap), rows), -1)
    for row, chains in enumerate(row_chains):
        column = [block for i in rng.permutation(len(chains)) for block in chains[i]]
        grid[: len(column), row] = column
    return grid
