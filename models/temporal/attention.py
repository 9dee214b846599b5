"""Attention of every query to its own past in the same video.

B blocks, T slots, S cached slots, N queries, D width, H heads, E = D / H channels of a head.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bload.errors import InputError
from models.attention import join_heads, split_heads

SLOWEST = 10_000.0
"""Frames over which the slowest pair of channels turns by one radian, as in arXiv 2104.09864."""

CHUNK = 128
"""Slots that attend at a time; a block of at most so many never synchronises."""


class Cache(NamedTuple):
    """The state: keys and values of the running video so far, oldest slots first.

    It grows by one slot per frame as long as the video of any block goes on: ``2 S N D`` numbers
    per block and layer.
    """

    keys_BSND: Tensor
    """Not rotated yet, so that each call can count positions from 0."""
    values_BSND: Tensor
    running_BS: Tensor
    """Bool: the slot belongs to the video that was running at the end. A start clears it."""

    def trim(self) -> "Cache":
        """Drop the slots that no block needs any more; this alone synchronises with the device."""
        oldest = int(self.running_BS.any(dim=0).int().argmax())
        return Cache(*(part[:, oldest:] for part in self))


class AttentionMemory(nn.Module):
    """Causal attention within each video, over the whole block or 128 slots of it at once.

    Time enters by rotating queries and keys (rotary embedding, arXiv 2104.09864), so that only
    differences of time matter and a video is treated alike anywhere in a block. A frame always sees
    itself, so no start needs to be learned. Padding sees the last video, so it has something to
    attend to as well.

    Scores of a chunk of slots are computed with all slots back to the oldest frame that it sees,
    and masked: at most ``2 B N T (128 + F) D`` multiply-adds if the longest video has F frames,
    beside the ``4 B N T D^2`` of the projections. So the cost is linear in the block; with videos
    as long as the block it is quadratic. A frame of a stream costs what its video has had so far.

    Raises:
        InputError: `heads` does not split `width` into even parts.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % (2 * heads):
            raise InputError(
                f"width {width} cannot be split over {heads} heads of an even size; "
                f"make model.width a multiple of {2 * heads}"
            )
        self.heads = heads
        self.in_proj = nn.Linear(width, 3 * width)
        nn.init.xavier_uniform_(self.in_proj.weight)
        nn.init.zeros_(self.in_proj.bias)

    def forward(
        self, read_BTND: Tensor, start_BT: Tensor, state: Cache | None, order: Any = None
    ) -> tuple[Tensor, Cache]:
        slots, queries = read_BTND.shape[1:3]
        query, keys, values = self.in_proj(read_BTND).chunk(3, dim=-1)
        # Videos are numbered from 0, the one that continues; forgotten slots are -1.
        video_BT = start_BT.long().cumsum(dim=1)
        video_BS = video_BT
        if state is not None:
            state = Cache(*state).trim()  # a checkpoint holds a list
            keys = torch.cat((state.keys_BSND, keys), dim=1)
            values = torch.cat((state.values_BSND, values), dim=1)
            video_BS = torch.cat((state.running_BS.long() - 1, video_BT), dim=1)
        position_S = torch.arange(keys.shape[1], device=keys.device)
        position_T = position_S[-slots:]
        seen_BTS = (video_BT[:, :, None] == video_BS[:, None]) & (position_S <= position_T[:, None])
        # Each query of a frame is a sequence of its own: to the kernel just more heads.
        heads = queries * self.heads
        rotated_T = rotate(split_heads(query.flatten(2), heads), position_T)
        rotated_S = rotate(split_heads(keys.flatten(2), heads), position_S)
        context = attend(rotated_T, rotated_S, split_heads(values.flatten(2), heads), seen_BTS)
        return join_heads(context).unflatten(-1, (queries, -1)), Cache(
            keys, values, video_BS == video_BS[:, -1:]
        )


def attend(query: Tensor, keys: Tensor, values: Tensor, seen_BTS: Tensor) -> Tensor:
    """Let queries ``(B, N H, T, E)`` read the slots ``(B, N H, S, E)`` that they see, by chunks.

    The T slots are the last of the S slots.
    """
    slots, earlier_slots = query.shape[2], keys.shape[2] - query.shape[2]
    outputs = []
    for first, oldest in zip(range(0, slots, CHUNK), oldest_seen(seen_BTS), strict=True):
        chunk, key_slots = slice(first, first + CHUNK), slice(oldest, earlier_slots + first + CHUNK)
        outputs.append(
            F.scaled_dot_product_attention(
                query[:, :, chunk],
                keys[:, :, key_slots],
                values[:, :, key_slots],
                attn_mask=seen_BTS[:, None, chunk, key_slots],
            )
        )
    return torch.cat(outputs, dim=2)


def oldest_seen(seen_BTS: Tensor) -> list[int]:
    """Return, for each chunk of T, the first slot of S that a frame in it sees, in any block.

    The chunk's first frame sees it, since videos follow one another.
    """
    if seen_BTS.shape[1] <= CHUNK:
        return [0]
    return seen_BTS[:, ::CHUNK].int().argmax(dim=-1).amin(dim=0).tolist()


def rotate(tokens: Tensor, position_S: Tensor) -> Tensor:
    """Rotate the pairs of channels (e, e + E / 2) of ``(..., S, E)`` by angles that grow with time.

    The product of two rotated tokens depends on the difference of their positions alone.
    """
    precision = torch.promote_types(tokens.dtype, torch.float32)
    pairs = tokens.shape[-1] // 2
    speed = SLOWEST ** -(torch.arange(pairs, device=tokens.device, dtype=precision) / pairs)
    angle_SE = position_S[:, None] * speed
    cos, sin = angle_SE.cos(), angle_SE.sin()
    first, second = tokens.chunk(2, dim=-1)
    rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return rotated.to(tokens.dtype)
