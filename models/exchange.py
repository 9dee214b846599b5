"""Frames and queries shared equally over ranks, in training, by all-to-alls that pass gradients.

A loader deals whole blocks, so ranks may hold unequal numbers of frames: where padding is skipped,
or where there are fewer blocks than ranks. Two ways to share the work nevertheless:

```
frames:   |home|-> backbone, encoder, spatial decoders ->|home|-> temporal part, heads
queries:  |home|-> all that sees one frame, heads -------------------------------------->|home|
                    memories: a share of the queries, all slots of the blocks of all ranks
```

The first is the remapping of Zeppelin (arXiv 2509.21841). The second is DeepSpeed-Ulysses
(arXiv 2309.14509) with queries in the place of heads: before each memory, ranks give frames and get
queries, after it the reverse. So one block is computed by all ranks. It is exact for memories that
do not mix queries.

R ranks, I pictures of this rank's batch, J pictures that it computes, L layers, B blocks, T slots,
N queries, D width.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd, wait_tensor

from models.outputs import Outputs
from models.padding import put, take
from models.temporal.layers import in_chunks


def exchange(rows: Tensor, given_R: Iterable[int], got_R: Iterable[int]) -> Tensor:
    """Give ``given_R[r]`` rows to each rank r, in this order, and get ``got_R[r]`` from it.

    All ranks have to call it; their backward passes do so again.
    """
    given, got = [int(count) for count in given_R], [int(count) for count in got_R]
    assert dist.group.WORLD is not None
    return wait_tensor(all_to_all_single_autograd(rows.contiguous(), got, given, dist.group.WORLD))


def gather(mine: Tensor) -> Tensor:
    """A tensor of each rank, of one shape on all, ``(R, ...)``."""
    all_R = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_R, mine)
    return torch.stack(all_R)


def equal_parts(total: int, ranks: int) -> list[int]:
    """Parts of `total` that differ by one at most, the larger ones first."""
    return [total // ranks + (rank < total % ranks) for rank in range(ranks)]


def transfers(have_R: np.ndarray) -> np.ndarray:
    """Pictures that each rank gives to each, ``(R, R)``, itself included, for all to have as many.

    Numbers differ by one at most afterwards, and no more pictures change ranks than have to.
    """
    want_R = np.empty_like(have_R)
    want_R[np.argsort(-have_R, kind="stable")] = equal_parts(int(have_R.sum()), len(have_R))
    kept_R = np.minimum(have_R, want_R)
    # Laid end to end, what some have too many lies over what others lack.
    gives, lacks = (np.append(0, np.cumsum(some_R - kept_R)) for some_R in (have_R, want_R))
    last = np.minimum(gives[1:, None], lacks[None, 1:])
    first = np.maximum(gives[:-1, None], lacks[None, :-1])
    return np.maximum(last - first, 0) + np.diag(kept_R)


@dataclass(frozen=True, eq=False)
class Spread:
    """Where the pictures of a batch are computed: each rank's own order, from rank to rank."""

    given_RR: np.ndarray
    """Pictures that each rank gives to each, see `transfers`."""
    rank: int

    @property
    def moves(self) -> bool:
        alone = len(self.given_RR) == 1  # asked first: a compiler does not see the numbers
        return not alone and bool((self.given_RR != np.diag(np.diag(self.given_RR))).any())

    def away(self, values_I: Tensor) -> Tensor:
        """Values of this rank's own pictures -> of those that it computes."""
        if not self.moves:
            return values_I
        return exchange(values_I, self.given_RR[self.rank], self.given_RR[:, self.rank])

    def home(self, values_LJ: Tensor) -> Tensor:
        """``(L, J, ...)`` of the pictures that this rank computes -> ``(L, I, ...)`` of its own."""
        if not self.moves:
            return values_LJ
        values_JL = values_LJ.movedim(1, 0)
        return exchange(values_JL, self.given_RR[:, self.rank], self.given_RR[self.rank]).movedim(
            0, 1
        )


HERE = Spread(np.zeros((1, 1), dtype=np.int64), 0)
"""Every picture is computed on its own rank."""


@dataclass(frozen=True, eq=False)
class Shares:
    """The blocks of all ranks, of which each rank remembers a share of the queries."""

    spread: Spread
    start_BT: Tensor
    """Of the blocks of all ranks, in rank order, filled up to the longest."""
    computed_BT: Tensor
    """Likewise: the slots whose pictures are computed by any rank."""
    bptt: int | None

    def remember(self, memory: nn.Module, read_1JND: Tensor) -> Tensor:
        """What a memory, as in `models.temporal.MemoryLayer`, finds for this rank's pictures.

        Frames of this rank and all queries -> this rank's queries in all frames, and back.
        """
        given_RR, rank = self.spread.given_RR, self.spread.rank
        pictures, queries = read_1JND.shape[1:3]
        queries_R = equal_parts(queries, len(given_RR))
        given_R = [pictures * part for part in queries_R]
        got_R = [queries_R[rank] * count for count in given_RR.sum(axis=0)]
        rows = torch.cat([part.flatten(0, 1) for part in read_1JND[0].split(queries_R, dim=1)])
        read_IND = exchange(rows, given_R, got_R).unflatten(0, (-1, queries_R[rank]))

        away_I = away_order(given_RR)
        home_I = torch.as_tensor(np.argsort(away_I), device=rows.device)
        blocks, slots = self.start_BT.shape
        read_BTND = put(read_IND[None, home_I], (blocks, slots), self.computed_BT)[0]

        def part(read: Tensor, _: Tensor, start: Tensor, state: Any, __: Any) -> tuple[Tensor, Any]:
            found, state = memory(read, start, state)
            return found[None], state

        found_1BTND, _ = in_chunks(part, read_BTND, read_BTND, self.start_BT, self.bptt)
        found_IND = take(found_1BTND[0], self.computed_BT)
        found_IND = found_IND[torch.as_tensor(away_I, device=rows.device)]
        parts = exchange(found_IND.flatten(0, 1), got_R, given_R).split(given_R)
        return torch.cat([part.unflatten(0, (pictures, -1)) for part in parts], dim=1)[None]


def away_order(given_RR: np.ndarray) -> np.ndarray:
    """Numbers, among the pictures of all ranks, of those that rank 0 computes, rank 1, ..."""
    ends_RR = given_RR.cumsum().reshape(given_RR.shape)
    starts_RR = ends_RR - given_RR
    pieces = zip(starts_RR.T.flat, ends_RR.T.flat, strict=True)
    return np.concatenate([np.arange(start, end) for start, end in pieces])


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of all ranks in a step, as every rank knows them."""

    spread: Spread
    shape_R2: np.ndarray
    """Blocks and slots of each."""
    have_extents: bool
    """True if any of them comes with extents."""


def meet(start_BT: Tensor, computed_BT: Tensor | None, has_extents: bool) -> Batches:
    """Agree with all ranks on where the pictures of their batches are computed."""
    pictures = start_BT.numel() if computed_BT is None else int(computed_BT.sum())
    all_R4 = gather(torch.tensor([pictures, *start_BT.shape, has_extents]))
    pictures_R, *shape_2R, extents_R = all_R4.numpy().T
    spread = Spread(transfers(pictures_R), dist.get_rank())
    return Batches(spread, np.stack(shape_2R, axis=1), bool(extents_R.any()))


def share_queries(
    batches: Batches, start_BT: Tensor, computed_BT: Tensor | None, bptt: int | None
) -> Shares:
    """Tell all ranks the starts of all blocks, for each to remember a share of the queries."""
    blocks, slots = start_BT.shape
    mine = torch.zeros(2, *batches.shape_R2.max(axis=0).tolist(), dtype=torch.uint8)
    mine[0, :blocks, :slots] = start_BT
    mine[1, :blocks, :slots] = 1 if computed_BT is None else computed_BT
    pairs = zip(gather(mine), batches.shape_R2[:, 0], strict=True)
    masks_2BT = torch.cat([masks[:, :blocks] for masks, blocks in pairs], dim=1).bool()
    all_start_BT, all_computed_BT = masks_2BT.to(start_BT.device)
    return Shares(batches.spread, all_start_BT, all_computed_BT, bptt)


def compute_with_ranks(
    kind: str,
    compute: Callable[..., Outputs],
    frames_ICHW: Tensor,
    extent_I2: Tensor | None,
    start_BT: Tensor,
    computed_BT: Tensor | None,
    gap_BT: Tensor | None,
    bptt: int | None,
    state: Any = None,
) -> Outputs:
    """Outputs of this rank's batch; all ranks have to call it.

    Args:
        kind: ``frames`` or ``queries``, which begins every batch anew.
        compute: and its arguments, as `models.dds.DDS.compute`.
    """
    batches = meet(start_BT, computed_BT, extent_I2 is not None)
    spread = batches.spread
    if batches.have_extents and extent_I2 is None:
        extent_I2 = torch.ones(len(frames_ICHW), 2, device=frames_ICHW.device)
    frames_JCHW = spread.away(frames_ICHW)
    extent_J2 = None if extent_I2 is None else spread.away(extent_I2)
    if kind == "frames":
        batch = frames_JCHW, extent_J2, start_BT, computed_BT, gap_BT, bptt
        return compute(*batch, spread, state=state)
    remember = share_queries(batches, start_BT, computed_BT, bptt).remember
    gap_1J = None if gap_BT is None else spread.away(take(gap_BT, computed_BT))[None]
    start_1J = start_BT.new_zeros(1, len(frames_JCHW))  # of its shape alone: `remember` has them
    outputs = compute(frames_JCHW, extent_J2, start_1J, None, gap_1J, None, remember=remember)
    block = start_BT.shape[0], start_BT.shape[1]

    def home(value_L1J: Tensor) -> Tensor:
        return put(spread.home(value_L1J[:, 0]), block, computed_BT)

    dense = outputs.dense_logits_BTHWE
    return Outputs(
        **{field.name: home(getattr(outputs, field.name)) for field in fields(Outputs)[:5]},
        dense_logits_BTHWE=None if dense is None else home(dense[None])[0],
    )
