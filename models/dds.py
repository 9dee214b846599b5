"""The scene-graph network: frames in, pairs of person and object with their relations out.

B blocks, T slots, I = B * T pictures, C H W image, S tokens, N queries, D width, L layers.

```
frames -> backbone -> encoder -+-> object branch:   spatial decoder -> temporal decoder -> heads
                               +-> relation branch: spatial decoder -> temporal decoder -> heads
```

Frames are encoded and decoded all at once; only the temporal decoders walk through time.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

from datasets.annotations.vocabulary import ATTENTION
from models.backbone import Pointwise, build_backbone
from models.branch import Branch, Tokens, to_key_mask
from models.extent import CENTRES, ENDS, cell_points, cells_inside
from models.network_input import NetworkInput
from models.outputs import CLASSES, LABELS, Outputs
from models.pictures import choose_pictures
from models.position import (
    FAR_WAVES,
    NEAR_WAVES,
    PersonCentre,
    point_references,
    sine_position,
)
from models.transformer import Encoder, LayerSizes

PIXEL_MEAN = (0.485, 0.456, 0.406)
PIXEL_STD = (0.229, 0.224, 0.225)
RECOMPUTED_AT_ONCE = 16
"""Pictures that are recomputed at a time, and so have their activations in memory at once."""


class BoxHead(nn.Module):
    """Box head of three linear layers, as in DETR: a box (cx, cy, w, h) in 0..1.

    With a reference, in logits, the box is relative to it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, out_width) for out_width in (width, width, 4))

    def forward(self, embeddings: Tensor, reference: Tensor | None = None) -> Tensor:
        """Embeddings ``(..., N, D)``, reference ``(..., N or 1, 4)`` -> boxes ``(..., N, 4)``."""
        first, second, last = self.layers
        logits = last(second(first(embeddings).relu()).relu())
        return (logits if reference is None else logits + reference).sigmoid()


class DDS(nn.Module):
    """Decoupled dynamic scene-graph network after DDS (arXiv 2301.07666).

    Two branches share the encoded frames and, if `anchored`, the points where queries start. The
    object branch predicts person box, object box and object class; the relation branch the region
    around both and their relations. Query n of one and query n of the other describe the same pair:
    the matcher and the losses treat the two as one prediction (like QPIC's single queries). The
    pairing is our reading, since that of the paper could not be read.

    Args:
        width: D, a multiple of 4 and of `heads`.
        heads: attention heads.
        feedforward: hidden width of the feed-forward layers.
        encoder_layers: layers of the frame encoder.
        decoder_layers: spatial layers of each branch.
        temporal_layers: temporal layers of each branch.
        queries: N, pairs predicted per frame.
        dropout: in attention and feed-forward; the walk through time has none.
        backbone: a name in `models.config.BACKBONES`.
        temporal: a name in `models.temporal.TEMPORAL_PARTS`.
        time: ``gap`` adds an embedding of `NetworkInput.gap_BT` to what the temporal decoders read.
        norm_first: norm before each sub-layer instead of after it (DETR's).
        anchored: start each query of both branches at its own point. Its position is that of the
            point, most heads look around it, and object and union boxes are relative to a learned
            reference there; person boxes are relative to the person's centre. See
            `models.position`.
        dense: train a dense side task on the encoder's tokens as well, see `models.dense`.
        skip_padding: leave padding out of the work on single frames; the outputs are the same.
        recompute: ``backbone`` recomputes the per-frame part in the backward pass, see
            `encode_all`, and so does ``auto``, if as few as fit: `recomputed_share`.
            ``offload`` keeps what that part saves in host memory, all of it and not on a
            separate stream (after ByteScale, arXiv 2502.21231). A tensor that two operations save
            is copied twice, and weights are copied too. No effect on the CPU.
        recomputed_share: of the pictures that ``backbone`` and ``auto`` recompute, 0 to 1.
        exchange: in training, ranks share out pictures evenly, see `models.pictures`.
    """

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        *,
        encoder_layers: int,
        decoder_layers: int,
        temporal_layers: int,
        queries: int,
        backbone: str,
        temporal: str,
        time: str,
        anchored: bool,
        dense: bool,
        skip_padding: bool,
        recompute: str,
        recomputed_share: float = 1.0,
        exchange: bool = False,
        **sizes: Unpack[LayerSizes],
    ) -> None:
        super().__init__()
        self.queries, self.skip_padding, self.exchange = queries, skip_padding, exchange
        self.recomputed_share = recomputed_share if recompute in ("backbone", "auto") else 0.0
        self.offload = recompute == "offload"
        width = sizes["width"]
        self.backbone = build_backbone(backbone)
        self.input_proj = Pointwise(self.backbone.channels, width)
        self.encoder = Encoder(encoder_layers, **sizes)
        parts = queries, decoder_layers, temporal_layers, temporal, time, anchored
        self.object_branch, self.relation_branch = (Branch(*parts, **sizes) for _ in range(2))
        self.person_box = BoxHead(width)
        self.object_box = BoxHead(width)
        self.union_box = BoxHead(width)
        self.object_class = nn.Linear(width, CLASSES)
        self.relation = nn.Linear(width, LABELS.stop)
        self.dense = nn.Linear(width, CLASSES + LABELS.stop) if dense else None
        # Labels are rare: begin at a score of 0.1, so that the many zeros do not swamp the rest.
        nn.init.constant_(self.relation.bias[LABELS], -2.2)
        nn.init.zeros_(self.relation.bias[ATTENTION])
        self.position_options = NEAR_WAVES if anchored else FAR_WAVES
        self.cell_offset = CENTRES if anchored else ENDS
        self.person_centre, self.reference = None, None
        if anchored:
            self.person_centre = PersonCentre(width)
            self.reference = nn.Parameter(point_references(queries))
            for head in (self.person_box, self.object_box, self.union_box):
                nn.init.zeros_(head.layers[-1].get_parameter("weight"))
        self.register_buffer("pixel_mean", torch.tensor(PIXEL_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("pixel_std", torch.tensor(PIXEL_STD).view(3, 1, 1), persistent=False)

    def forward(self, inputs: NetworkInput, state: Any = None) -> Outputs:
        """Predict every slot of a batch; predictions for padding mean nothing.

        Args:
            state: that of earlier `Outputs`, to continue from the last slot of each row; None:
                every row begins anew.
        """
        extent_BT2, inputs = inputs.extent_BT2, inputs.prepare()
        exchange = self.exchange and self.training
        pixels_ICHW, extent_I2, to_slots = choose_pictures(inputs, self.skip_padding, exchange)
        with save_on_cpu(pin_memory=pixels_ICHW.is_cuda) if self.offload else nullcontext():
            memory_IHWD = self.encode_all(pixels_ICHW, extent_I2)
        tokens = self.build_tokens(memory_IHWD, extent_I2)
        object_state, relation_state = state or (None, None)
        spatial_LBTND = to_slots(self.object_branch.spatial(tokens))
        objects, object_state = self.object_branch(spatial_LBTND, inputs, object_state)
        spatial_LBTND = to_slots(self.relation_branch.spatial(tokens))
        relations, relation_state = self.relation_branch(spatial_LBTND, inputs, relation_state)
        with torch.autocast(objects.device.type, enabled=False):
            outputs = self.apply_heads(objects, relations, tokens, to_slots)
        return replace(outputs, extent_BT2=extent_BT2, state=(object_state, relation_state))

    def apply_heads(
        self,
        objects: Tensor,
        relations: Tensor,
        tokens: Tokens,
        to_slots: Callable[[Tensor], Tensor],
    ) -> Outputs:
        """Compute outputs from embeddings ``(L, B, T, N, D)`` in the precision of the parameters.

        Args:
            to_slots: puts values ``(L, J, ...)`` of computed frames into slots, ``(L, B, T, ...)``.
        """
        precision = self.relation.weight.dtype
        objects, relations = objects.to(precision), relations.to(precision)
        memory_ISD, person, dense = tokens.memory_ISD.to(precision), None, None
        if self.person_centre is not None:
            centre_I14 = self.person_centre(memory_ISD, tokens.centres, tokens.inside_IS)
            person = to_slots(centre_I14[None])[0]
        if self.dense is not None and self.training:
            logits_IHWE = self.dense(memory_ISD.unflatten(1, tokens.grid))
            dense = to_slots(logits_IHWE[None])[0]
        return Outputs(
            person_boxes_LBTN4=self.person_box(objects, person),
            object_boxes_LBTN4=self.object_box(objects, self.reference),
            class_logits_LBTNK=self.object_class(objects),
            union_boxes_LBTN4=self.union_box(relations, self.reference),
            relation_logits_LBTNR=self.relation(relations),
            dense_logits_BTHWE=dense,
        )

    def build_tokens(self, memory_IHWD: Tensor, extent_I2: Tensor | None = None) -> Tokens:
        """Return encoded frames with their positions."""
        rows, columns = memory_IHWD.shape[1:3]
        memory_ISD = memory_IHWD.flatten(1, 2)
        return Tokens(
            memory_ISD=memory_ISD,
            placed_ISD=memory_ISD + self.position(rows, columns, extent_I2).to(memory_ISD.dtype),
            centres=cell_points(rows, columns, self.pixel_mean, extent_I2),
            inside_IS=tokens_inside(extent_I2, rows, columns),
            grid=(rows, columns),
        )

    def encode_all(self, pixels_ICHW: Tensor, extent_I2: Tensor | None) -> Tensor:
        """Encode all pictures; of the first ones, a share of all, only inputs and outputs are kept.

        The backward pass computes these again, chunk by chunk and with the same random numbers, so
        gradients are the same. It reaches them last, when what was saved for the rest is gone, so
        that a chunk does not raise the peak. Works under DDP.
        """
        count = round(self.recomputed_share * len(pixels_ICHW)) if torch.is_grad_enabled() else 0
        tokens = []
        for first in range(0, count, RECOMPUTED_AT_ONCE):
            chunk = slice(first, min(first + RECOMPUTED_AT_ONCE, count))
            extent = None if extent_I2 is None else extent_I2[chunk]
            tokens.append(checkpoint(self.encode, pixels_ICHW[chunk], extent, use_reentrant=False))
        if count < len(pixels_ICHW) or not tokens:
            extent = None if extent_I2 is None else extent_I2[count:]
            tokens.append(self.encode(pixels_ICHW[count:], extent))
        return tokens[0] if len(tokens) == 1 else torch.cat(tokens)

    def encode(self, frames_ICHW: Tensor, extent_I2: Tensor | None = None) -> Tensor:
        """Compute the per-frame part, in which no picture sees another: tokens ``(I, H, W, D)``."""
        frames_ICHW = frames_ICHW.contiguous(memory_format=torch.channels_last)
        scale, shift = 1 / (255 * self.pixel_std), -self.pixel_mean / self.pixel_std
        pixels = torch.addcmul(shift, frames_ICHW.to(scale.dtype), scale)
        inside_IHW = None
        if extent_I2 is not None:
            inside_IHW = cells_inside(extent_I2, *pixels.shape[-2:])
            pixels = pixels.masked_fill(~inside_IHW[:, None], 0)
        tokens_IHWD = self.input_proj(self.backbone(pixels, inside_IHW))
        rows, columns = tokens_IHWD.shape[1:3]
        tokens_ISD = tokens_IHWD.flatten(1, 2)
        position = self.position(rows, columns, extent_I2).to(tokens_ISD.dtype)
        key_mask = to_key_mask(tokens_inside(extent_I2, rows, columns))
        return self.encoder(tokens_ISD, position, key_mask).unflatten(1, (rows, columns))

    def position(self, height: int, width: int, extent_I2: Tensor | None = None) -> Tensor:
        """Return the positions of a grid of tokens, ``(S, D)``, or on canvases ``(I, S, D)``."""
        points = cell_points(height, width, self.pixel_mean, extent_I2, self.cell_offset)
        return sine_position(points, self.input_proj.out_channels, **self.position_options)


def tokens_inside(extent_I2: Tensor | None, rows: int, columns: int) -> Tensor | None:
    """Return which tokens lie in their picture, even in part, bool ``(I, S)``; None if all do."""
    return None if extent_I2 is None else cells_inside(extent_I2, rows, columns).flatten(1)
