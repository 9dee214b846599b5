"""Boundaries of the sequences of a batch, in the form that each kernel or loss takes.

    |a a a b b .|   segment_BT  0 0 0 1 1 -1    segment_position_BT  0 1 2 0 1 0
    |c c d d d d|               0 0 1 1 1  1                         0 1 0 1 2 3

    cu_seqlens  0 3 5 7 11      seq_idx_BT  0 0 0 1 1 2    next_tokens  a a - b - -
                                            0 0 1 1 1 1                 c - d d d -

    segments (block 0, slot 0, length 3), (0, 3, 2), (1, 0, 2), (1, 2, 4)

B blocks, T slots, S segments (block after block), F valid frames (row-major), V = B * T slots.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import PackedSequence

from bload.batch.trees import exact_dtype
from bload.batch.walk_order import side_by_side
from bload.errors import InputError, check_choice

TILE = 128
"""Side of the tiles of `flex_attention`, in slots; a row has K tiles."""


@dataclass(slots=True, eq=False)
class Segments:
    """All segments of a batch, block after block, in slot order; int64 ``(S,)`` each."""

    block_S: Tensor
    """Row of the batch that holds the segment."""
    slot_S: Tensor
    """Slot of its first frame."""
    length_S: Tensor
    """Number of its frames."""
    sequence_S: Tensor
    """Number of its sequence in the data set."""
    first_S: Tensor
    """Frame of the sequence at which it begins."""
    longest: int = field(kw_only=True)
    """Largest length, stored so that reading it does not synchronise with the device."""

    def __len__(self) -> int:
        return len(self.slot_S)


@dataclass(slots=True, eq=False)
class Boundaries:
    """Segments of a batch; `bload.Batch` adds inputs and targets, and describes all fields."""

    valid_BT: Tensor
    start_BT: Tensor
    segments: Segments

    @property
    def batch_segment_BT(self) -> Tensor:
        """int64, number of the segment within the batch (its row in `segments`), S on padding."""
        begin_S = self.segments.block_S, self.segments.slot_S
        true_S = torch.ones_like(begin_S[0], dtype=torch.bool)  # True from Python synchronises
        begins_BT = torch.zeros_like(self.valid_BT).index_put(begin_S, true_S)
        number_BT = begins_BT.flatten().cumsum(0).view(begins_BT.shape) - 1
        return torch.where(self.valid_BT, number_BT, len(self.segments))

    @property
    def segment_BT(self) -> Tensor:
        """int64, number of the segment within its block, -1 on padding."""
        index_BT = self.batch_segment_BT
        return torch.where(self.valid_BT, index_BT - index_BT[:, :1], -1)

    @property
    def sequence_BT(self) -> Tensor:
        """int64, number of the sequence in the data set, -1 on padding."""
        return _by_slot(self.segments.sequence_S, self.batch_segment_BT, -1)

    @property
    def position_BT(self) -> Tensor:
        """int64, number of the frame within its sequence, 0 on padding."""
        return self.segment_position_BT + _by_slot(self.segments.first_S, self.batch_segment_BT, 0)

    @property
    def segment_position_BT(self) -> Tensor:
        """int64, number of the frame within its segment, 0 on padding."""
        slots_T = torch.arange(self.valid_BT.shape[1], device=self.valid_BT.device)
        start_BT = torch.where(self.start_BT, slots_T, 0).cummax(1).values
        return torch.where(self.valid_BT, slots_T - start_BT, 0)

    @property
    def cu_seqlens(self) -> Tensor:
        """int32 ``(S + 1,)``, cumulative segment lengths: the bounds in ``values_BT[valid_BT]``.

        A batch without frames has one segment of length 0, as kernels take no empty list.
        """
        length_S = self.segments.length_S
        if not len(length_S):
            length_S = length_S.new_zeros(1)
        return torch.cat([length_S.new_zeros(1), length_S.cumsum(0)]).to(torch.int32)

    @property
    def max_seqlen(self) -> int:
        """Length of the longest segment; reading it does not synchronise with the device."""
        return self.segments.longest

    @property
    def seq_idx_BT(self) -> Tensor:
        """int32, number of the segment for Mamba's kernels; it rises along a row.

        Padding inside a row has the number of its segment, and at the end of a row the next.
        """
        segment_BT = self.segment_BT.cummax(1).values
        inside_BT = self.valid_BT.flip(1).cumsum(1).flip(1) > 0
        return torch.where(inside_BT, segment_BT, segment_BT[:, -1:] + 1).to(torch.int32)

    def varlen(self) -> dict[str, Any]:
        """Return what `torch.nn.attention.varlen.varlen_attn` takes after query, key and value.

        These three are ``values_BT[batch.valid_BT]``, ``(F, heads, width)``. Add
        ``window_size=(-1, 0)`` for causal attention.
        """
        bounds, longest = self.cu_seqlens, self.max_seqlen
        return {"cu_seq_q": bounds, "cu_seq_k": bounds, "max_q": longest, "max_k": longest}

    def flash_attn(self) -> dict[str, Any]:
        """Return the arguments of ``flash_attn.flash_attn_varlen_func`` besides q, k and v."""
        q_and_k = {"cu_seqlens": self.cu_seqlens, "max_seqlen": self.max_seqlen}
        return {f"{name}_{end}": value for name, value in q_and_k.items() for end in "qk"}

    def jagged(self, values_BT: Tensor) -> Tensor:
        """Return ``(B, T, ...)`` as a nested tensor ``(S, n, ...)`` of jagged layout.

        One entry per segment, of as many rows as it has frames; ``values()`` of a result belong in
        ``outputs_BT[valid_BT]``. As in `to_packed`, a batch without frames becomes one slot of
        padding, since attention rejects empty input.
        """
        self._check(values_BT)
        values_F, bounds = values_BT[self.valid_BT], self.cu_seqlens.long()
        if not len(self.segments):
            values_F, bounds = values_BT.flatten(0, 1)[:1], bounds.new_tensor([0, 1])
        return torch.nested.nested_tensor_from_jagged(values_F, bounds)

    def thd(self) -> dict[str, Any]:
        """Return the packed parameters of Megatron-Core and Transformer Engine.

        They belong to ``values_BT.flatten(0, 1)``, padding included: the lengths are those of the
        segments, and the padded bounds give padding to the segment before it. A block without a
        segment is one of length 0. It synchronises with the device.
        """
        used_V = pad(self.valid_BT.flatten().cumsum(0), (1, 0))
        begins_BT = self.start_BT.clone()
        begins_BT[:, 0] = True
        bounds = pad(begins_BT.flatten().nonzero()[:, 0], (0, 1), value=begins_BT.numel())
        values = {
            "cu_seqlens_{}": used_V[bounds].to(torch.int32),
            "cu_seqlens_{}_padded": bounds.to(torch.int32),
            "max_seqlen_{}": int(bounds.diff().max()),
        }
        names = {key.format(end): value for key, value in values.items() for end in ("q", "kv")}
        return {"qkv_format": "thd"} | names

    def attention_mask(self, causal: bool = True) -> Tensor:
        """Return a bool mask ``(B, 1, T, T)``, True where a slot (row) sees another of its segment.

        Use it with `torch.nn.functional.scaled_dot_product_attention` on any device. It holds
        B x T x T values; `block_mask` does not. Padding sees padding, so no row is empty or NaN.

        Args:
            causal: hide later slots.
        """
        check_choice("causal", causal, (True, False))
        sees_BTT = self.segment_BT[:, :, None] == self.segment_BT[:, None]
        return (sees_BTT.tril() if causal else sees_BTT)[:, None]

    def block_mask(self, causal: bool = True) -> Any:
        """Return the mask for `torch.nn.attention.flex_attention`, which skips masked tiles.

        Segments of a row are in order, so the first and the last of each tile show whether two
        tiles meet. The result equals that of `create_block_mask`, which evaluates B x T x T values,
        but for tiles of padding inside a row (`multiple_of`), some of which are computed in vain.
        """
        from torch.nn.attention.flex_attention import BlockMask

        check_choice("causal", causal, (True, False))
        segment_BT = self.segment_BT
        t_max = segment_BT.shape[1]

        def sees(block: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            same = segment_BT[block, query] == segment_BT[block, key]
            return same & (query >= key) if causal else same

        padded_BT = pad(self.seq_idx_BT, (0, -t_max % TILE), value=t_max)
        first_BK, last_BK = padded_BT[:, ::TILE], padded_BT[:, TILE - 1 :: TILE]
        padding_BKT = pad(~self.valid_BT, (0, -t_max % TILE)).view(*first_BK.shape, TILE)
        is_single_BK = first_BK == last_BK  # all slots of one segment, or padding at the end
        has_padding_BK, is_empty_BK = padding_BKT.any(2), is_single_BK & padding_BKT.all(2)
        meet_BKK = (first_BK[:, :, None] <= last_BK[:, None]) & (
            first_BK[:, None] <= last_BK[:, :, None]
        )
        full_BKK = meet_BKK & _pairs(is_single_BK & ~has_padding_BK) | _pairs(is_empty_BK)
        meet_BKK |= _pairs(has_padding_BK)
        if causal:
            meet_BKK, full_BKK = meet_BKK.tril(), full_BKK.tril(-1)
        return BlockMask.from_kv_blocks(
            *_in_order(meet_BKK & ~full_BKK),
            *_in_order(full_BKK),
            BLOCK_SIZE=(TILE, TILE),
            mask_mod=sees,
            seq_lengths=(t_max, t_max),
        )

    def next_tokens(self, tokens_BT: Tensor, ignore: int = -100) -> Tensor:
        """Return the next token of a segment, int64; `ignore` at its end and on padding.

        A sequence in pieces thus has one label less for every piece, also under ``long="carry"``.
        """
        self._check(tokens_BT)
        if tokens_BT.dim() != 2 or tokens_BT.is_floating_point():
            raise InputError(
                f"tokens are {tokens_BT.dtype} {tuple(tokens_BT.shape)}; give whole numbers (B, T)"
            )
        follows_BT = torch.zeros_like(self.valid_BT)
        follows_BT[:, :-1] = self.valid_BT[:, 1:] & ~self.start_BT[:, 1:]
        return torch.where(follows_BT, tokens_BT.long().roll(-1, 1), ignore)

    def last(self, values_BT: Tensor) -> Tensor:
        """Return the values at the last frame of each segment, ``(B, T, ...)`` -> ``(S, ...)``."""
        self._check(values_BT)
        segments = self.segments
        return values_BT[segments.block_S, segments.slot_S + segments.length_S - 1]

    def mean(self, values_BT: Tensor) -> Tensor:
        """Return the mean over the frames of each segment, ``(B, T, ...)`` -> ``(S, ...)``.

        Integers and bools are summed in float64 and give float32; halves are summed in float32.
        """
        self._check(values_BT)
        dtype, wide = values_BT.dtype, torch.promote_types(values_BT.dtype, torch.float32)
        if not (values_BT.is_floating_point() or values_BT.is_complex()):
            dtype, wide = torch.float32, exact_dtype(values_BT.device)
        values_V = values_BT.flatten(0, 1).to(wide)
        sum_S = values_V.new_zeros(len(self.segments) + 1, *values_V.shape[1:])
        sum_S = sum_S.index_add(0, self.batch_segment_BT.flatten(), values_V)[:-1]
        mean_S = sum_S / self.segments.length_S.view(-1, *(1,) * (sum_S.dim() - 1))
        return mean_S.to(dtype)

    def packed_order(self) -> PackedSequence:
        """Return the slots ``b * T + t`` in the order of `to_packed`, with sizes and segments.

        It depends on the segments alone. Give it to `to_packed` and `from_packed` inside a compiled
        function, which cannot count segments, and to save counting them twice. On a batch that is
        still on the CPU it does not synchronise: ``batch.packed_order().to(device)``.
        """
        segments, t_max = self.segments, self.valid_BT.shape[1]
        if not len(segments):  # two slots, since a compiled function has one more graph for one
            slot_F = torch.arange(min(2, t_max), device=self.valid_BT.device)
            return PackedSequence(slot_F, torch.ones_like(slot_F, device="cpu"), slot_F[:1])
        slot_S = segments.block_S * t_max + segments.slot_S
        slot_F, sizes_T, order_S = side_by_side(slot_S, segments.length_S, self.max_seqlen)
        return PackedSequence(slot_F, sizes_T.cpu(), order_S, order_S.argsort())

    def to_packed(self, values_BT: Tensor, order: PackedSequence | None = None) -> PackedSequence:
        """Pack ``(B, T, ...)`` for `nn.LSTM`, `nn.GRU` or `nn.RNN`, one sequence per segment.

        The state is then clear at every start, and cuDNN runs the module. Its states,
        ``(layers, S, width)``, are in the order of `segments`. A batch without frames becomes two
        slots of padding (S = 1), because these modules reject empty input; `from_packed` drops it,
        ``state[:, : len(batch.segments)]`` does too, and gradients are 0. Without `order`, both
        methods synchronise with a GPU, because PyTorch needs the sizes on the CPU.

        Args:
            order: what `packed_order` of this batch returned.

        Raises:
            InputError: the values do not begin with ``(B, T)``, here and in all such methods.
        """
        self._check(values_BT)
        order = self.packed_order() if order is None else order
        frames_F = values_BT.flatten(0, 1).index_select(0, order.data)
        return PackedSequence(frames_F, *order[1:])

    def from_packed(self, packed: PackedSequence, order: PackedSequence | None = None) -> Tensor:
        """Put outputs for `to_packed` back into blocks, ``(B, T, ...)``, 0 on padding."""
        order = self.packed_order() if order is None else order
        if not isinstance(packed, PackedSequence) or len(packed.data) != len(order.data):
            kind = type(packed).__name__
            raise InputError(f"packed, a {kind}, is not of this batch; give an RNN's first output")
        frames = len(order.data) if len(self.segments) else 0
        values_V = packed.data.new_zeros(self.valid_BT.numel(), *packed.data.shape[1:])
        values_V = values_V.index_copy(0, order.data[:frames], packed.data[:frames])
        return values_V.reshape(*self.valid_BT.shape, *values_V.shape[1:])

    def _check(self, values_BT: Tensor) -> None:
        shape = tuple(getattr(values_BT, "shape", ()))
        if shape[:2] != self.valid_BT.shape:
            raise InputError(
                f"the values are a {type(values_BT).__name__}{shape or ''}, the batch begins with "
                f"{tuple(self.valid_BT.shape)}; give (B, T, ...), blocks first and then slots"
            )


def _pairs(tiles_BK: Tensor) -> Tensor:
    """Return True where both tiles are set, ``(B, K, K)``."""
    return tiles_BK[:, :, None] & tiles_BK[:, None]


def _in_order(tiles_BKK: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of set tiles per row, ``(B, 1, K)``, and tile numbers, set ones first."""
    numbers_BKK = tiles_BKK.byte().argsort(dim=2, descending=True, stable=True)
    return tiles_BKK.sum(2, dtype=torch.int32)[:, None], numbers_BKK.to(torch.int32)[:, None]


def _by_slot(values_S: Tensor, number_BT: Tensor, padding: int) -> Tensor:
    """Return the value of each slot's segment, or `padding`."""
    return torch.cat([values_S, values_S.new_full((1,), padding)])[number_BT]
