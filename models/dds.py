"""The scene-graph network: frames in, pairs of person and object with their relations out.

B blocks, T slots, I = B * T pictures, C H W image, S tokens, N queries, D width, L layers.

```
frames -> backbone -> encoder -+-> object branch:   spatial decoder -> temporal decoder -> heads
                               +-> relation branch: spatial decoder -> temporal decoder -> heads
```

Frames are encoded and decoded all at once; only the temporal decoders walk through time.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bload.batch.trees import to_device
from bload.batch.walk_order import WalkOrder
from bload.errors import InputError, check_choice
from datasets.annotations.vocabulary import ATTENTION
from models.anchors import PersonPlace, point_references
from models.backbone import Pointwise, build_backbone
from models.box_head import BoxHead
from models.branch import Branch, Tokens, as_keys
from models.exchange import HERE, meet
from models.extent import CENTRES, ENDS, cell_points, cells_inside
from models.outputs import CLASSES, LABELS, Outputs
from models.padding import put, take, to_compute
from models.position import FAR_WAVES, NEAR_WAVES, sine_position
from models.recompute import offloaded, recomputed
from models.temporal.layers import walk_orders
from models.transformer import Encoder, LayerSizes

PIXEL_MEAN = (0.485, 0.456, 0.406)
PIXEL_STD = (0.229, 0.224, 0.225)


class DDS(nn.Module):
    """Decoupled dynamic scene-graph network after DDS (arXiv 2301.07666).

    Two branches share the encoded frames and nothing else. The object branch predicts person box,
    object box and object class; the relation branch the region around both and their relations.
    Query n of one and query n of the other describe the same pair: the matcher and the losses treat
    the two as one prediction (like QPIC's single queries). Only this ties the branches. The pairing
    is our reading, since that of the paper could not be read.

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
        temporal: a name in `models.temporal.PARTS`.
        time: time input of the temporal part: ``none``, or ``gap``, the video's frames since the
            previous annotated one, see `models.branch.GapEmbedding`.
        norm_first: norm before each sub-layer instead of after it (DETR's).
        anchored: start each query of both branches at its own point. Its position is that of the
            point, most heads look around it, and object and union boxes are relative to a learned
            reference there; person boxes are relative to the person's place in the frame. See
            `models.anchors`.
        dense: train a dense side task on the encoder's tokens as well, see `models.dense`.

    Raises:
        InputError: a name is unknown, or the width does not suit.
    """

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        width: int = 256,
        heads: int = 8,
        feedforward: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        temporal_layers: int = 2,
        queries: int = 100,
        dropout: float = 0.1,
        backbone: str = "resnet50",
        temporal: str = "dds",
        time: str = "none",
        norm_first: bool = False,
        anchored: bool = False,
        dense: bool = False,
    ) -> None:
        super().__init__()
        check_choice("model.time", time, ("none", "gap"))
        self.time = time
        self.queries = queries
        sizes = LayerSizes(
            width=width,
            heads=heads,
            feedforward=feedforward,
            dropout=dropout,
            norm_first=norm_first,
        )
        self.backbone = build_backbone(backbone)
        self.input_proj = Pointwise(self.backbone.channels, width)
        self.encoder = Encoder(encoder_layers, **sizes)
        self.object_branch, self.relation_branch = (
            Branch(
                queries, decoder_layers, temporal_layers, temporal, time == "gap", anchored, **sizes
            )
            for _ in range(2)
        )
        self.person_box = BoxHead(width)
        self.object_box = BoxHead(width)
        self.union_box = BoxHead(width)
        self.object_class = nn.Linear(width, CLASSES)
        self.relation = nn.Linear(width, LABELS.stop)
        self.dense = nn.Linear(width, CLASSES + LABELS.stop) if dense else None
        # Labels are rare: begin at a score of 0.1, so that the many zeros do not swamp the rest.
        nn.init.constant_(self.relation.bias[LABELS], -2.2)
        nn.init.zeros_(self.relation.bias[ATTENTION])
        self.waves, self.place = (NEAR_WAVES, CENTRES) if anchored else (FAR_WAVES, ENDS)
        self.skips_padding = False
        """Do work on single frames only for valid frames, see `models.padding`."""
        self.exchanges = False
        """In training, compute as many frames as every other rank, see `models.exchange`."""
        self.recompute = 0.0
        """Share of the pictures whose per-frame part is recomputed in the backward pass."""
        self.offload = False
        """Keep the activations of the per-frame part in host memory."""
        self.person_place, self.reference = None, None
        if anchored:
            self.person_place = PersonPlace(width)
            self.reference = nn.Parameter(point_references(queries))
            for head in (self.person_box, self.object_box, self.union_box):
                nn.init.zeros_(head.layers[-1].get_parameter("weight"))
        self.register_buffer("pixel_mean", torch.tensor(PIXEL_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("pixel_std", torch.tensor(PIXEL_STD).view(3, 1, 1), persistent=False)

    def forward(
        self,
        frames_BTCHW: Tensor,
        start_BT: Tensor,
        valid_BT: Tensor | None = None,
        bptt: int | None = None,
        extent_BT2: Tensor | None = None,
        gap_BT: Tensor | None = None,
        state: Any = None,
        orders: Sequence[WalkOrder] | None = None,
    ) -> Outputs:
        """Predict every slot of a batch.

        Args:
            frames_BTCHW: RGB, uint8 or float in 0..255, one size for all.
            start_BT: bool, True on the first frame of each video. Keep this and all that follows on
                the host: then nothing here waits for a GPU, except ``attention`` on blocks of more
                than 128 slots or with a `state`.
            valid_BT: bool, False on padding. Padded pixels are blanked, so that not even a NaN
                among them matters. Padding is then computed like everything else; with
                `skips_padding`, work on single frames leaves it out.
            bptt: slots of back-propagation through time; None: to the video's start.
            extent_BT2: shares (x, y) in 0..1 of the canvas's width and height that each picture
                fills, from its upper left corner. The rest of the canvas does not matter, and boxes
                are shares of the picture. None: all fill the canvas.
            gap_BT: float, the video's frames since the previous annotated one, 0 on a video's
                first; read only if `time` is ``gap``.
            state: that of earlier `Outputs`, to continue from the last slot of each row; None:
                every row begins anew.
            orders: `models.temporal.layers.walk_orders` of `start_BT` and `bptt`, if computed
                already.

        Returns:
            `Outputs` of every layer, for every slot; those of padding mean nothing.

        Raises:
            InputError: `time` is ``gap``, and there is no `gap_BT`.
        """
        if self.time == "gap" and gap_BT is None:
            raise InputError(
                "model.time=gap needs gap_BT, which is missing; give it, or train a network with "
                "model.time=none"
            )
        device, computed_BT, extent_I2 = frames_BTCHW.device, None, None
        if orders is None:
            orders = walk_orders(start_BT, bptt)
        if valid_BT is not None:
            if self.skips_padding:
                computed_BT = to_compute(valid_BT.cpu())
            valid_BT = to_device(valid_BT, device)
            frames_BTCHW = frames_BTCHW.masked_fill(~valid_BT[..., None, None, None], 0)
        if extent_BT2 is not None:
            filled_BT2 = to_device(extent_BT2, device)
            if valid_BT is not None:
                filled_BT2 = filled_BT2.masked_fill(~valid_BT[..., None], 1)
            extent_I2 = take(filled_BT2, computed_BT)
        if gap_BT is not None:
            gap_BT = to_device(gap_BT, device)
            if valid_BT is not None:
                gap_BT = gap_BT.masked_fill(~valid_BT, 0)
        frames_ICHW, spread = take(frames_BTCHW, computed_BT), HERE
        if self.exchanges and self.training:
            spread, extent_I2 = meet(frames_ICHW, extent_I2)
            frames_ICHW = spread.away(frames_ICHW)
        tokens = self.encode(frames_ICHW, extent_I2)
        here = [order.to(device) for order in orders]
        past = to_device(start_BT, device), here, gap_BT, computed_BT, spread
        before = state or (None, None)
        objects, object_state = self.object_branch(tokens, *past, before[0])
        relations, relation_state = self.relation_branch(tokens, *past, before[1])
        precision = self.relation.weight.dtype
        with torch.autocast(device.type, enabled=False):
            objects, relations = objects.to(precision), relations.to(precision)
            memory_ISD = tokens.memory_ISD.to(precision)
            person, dense = None, None
            block = start_BT.shape[0], start_BT.shape[1]
            if self.person_place is not None:
                person = self.person_place(memory_ISD, tokens.centres, tokens.inside_IS)
                person = spread.home(person[None])[0]
            if self.dense is not None and self.training:
                dense = self.dense(memory_ISD.unflatten(1, tokens.grid))
                dense = put(spread.home(dense[None]), block, computed_BT)[0]

            def predict(head: nn.Module, embeddings_LBTND: Tensor, *reference: Any) -> Tensor:
                embeddings_LIND = take(embeddings_LBTND.movedim(0, 2), computed_BT).movedim(1, 0)
                return put(head(embeddings_LIND, *reference), block, computed_BT)

            return Outputs(
                person_boxes_LBTN4=predict(self.person_box, objects, person),
                object_boxes_LBTN4=predict(self.object_box, objects, self.reference),
                class_logits_LBTNK=predict(self.object_class, objects),
                union_boxes_LBTN4=predict(self.union_box, relations, self.reference),
                relation_logits_LBTNR=predict(self.relation, relations),
                dense_logits_BTHWE=dense,
                extent_BT2=extent_BT2,
                state=(object_state, relation_state),
            )

    def encode(self, frames_ICHW: Tensor, extent_I2: Tensor | None = None) -> Tokens:
        """Encode frames into tokens, in rows of a grid."""
        if self.offload:
            memory_IHWD = offloaded(self.encode_alone, frames_ICHW, extent_I2)
        elif torch.is_grad_enabled():
            memory_IHWD = recomputed(self.encode_alone, self.recompute, frames_ICHW, extent_I2)
        else:
            memory_IHWD = self.encode_alone(frames_ICHW, extent_I2)
        rows, columns = memory_IHWD.shape[1:3]
        memory_ISD = memory_IHWD.flatten(1, 2)
        return Tokens(
            memory_ISD=memory_ISD,
            placed_ISD=memory_ISD + self.position(rows, columns, extent_I2).to(memory_ISD.dtype),
            centres=cell_points(rows, columns, self.pixel_mean, extent_I2),
            inside_IS=tokens_inside(extent_I2, rows, columns),
            grid=(rows, columns),
        )

    def encode_alone(self, frames_ICHW: Tensor, extent_I2: Tensor | None = None) -> Tensor:
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
        seen = as_keys(tokens_inside(extent_I2, rows, columns))
        return self.encoder(tokens_ISD, position, seen).unflatten(1, (rows, columns))

    def position(self, height: int, width: int, extent_I2: Tensor | None = None) -> Tensor:
        """Return the positions of a grid of tokens, ``(S, D)``, or on canvases ``(I, S, D)``."""
        points = cell_points(height, width, self.pixel_mean, extent_I2, self.place)
        return sine_position(points, self.input_proj.out_channels, **self.waves)


def tokens_inside(extent_I2: Tensor | None, rows: int, columns: int) -> Tensor | None:
    """Return which tokens lie in their picture, even in part, bool ``(I, S)``; None if all do."""
    return None if extent_I2 is None else cells_inside(extent_I2, rows, columns).flatten(1)
