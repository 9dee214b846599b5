"""DETR (arXiv 2005.12872) restated with the names of its published checkpoints.

I pictures, C H W image, S tokens, N queries, D width. Everything is sequence first, as there.
"""

import math

import torch
import torchvision
from torch import Tensor, nn
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.ops import FrozenBatchNorm2d


def detr_positions(not_mask: Tensor, dim: int) -> Tensor:
    """``PositionEmbeddingSine(dim / 2, normalize=True)`` of pictures True in a mask ``(I, H, W)``.

    Returns ``(I, D, H, W)``.
    """
    y_embed = not_mask.cumsum(1, dtype=torch.float32)
    x_embed = not_mask.cumsum(2, dtype=torch.float32)
    y_embed = y_embed / (y_embed[:, -1:, :] + 1e-6) * 2 * math.pi
    x_embed = x_embed / (x_embed[:, :, -1:] + 1e-6) * 2 * math.pi
    dim_t = torch.arange(dim // 2, dtype=torch.float32)
    dim_t = 10000 ** (2 * (dim_t // 2) / (dim // 2))
    pos_x = x_embed[:, :, :, None] / dim_t
    pos_y = y_embed[:, :, :, None] / dim_t
    pos_x = torch.stack((pos_x[..., 0::2].sin(), pos_x[..., 1::2].cos()), dim=4).flatten(3)
    pos_y = torch.stack((pos_y[..., 0::2].sin(), pos_y[..., 1::2].cos()), dim=4).flatten(3)
    return torch.cat((pos_y, pos_x), dim=3).permute(0, 3, 1, 2)


class EncoderLayer(nn.TransformerEncoderLayer):
    """With PyTorch's parameters, whose names are DETR's."""

    def forward(self, src: Tensor, pos: Tensor, padded_IS: Tensor) -> Tensor:
        q = k = src + pos
        src = self.norm1(src + self.self_attn(q, k, value=src, key_padding_mask=padded_IS)[0])
        return self.norm2(src + self.linear2(self.linear1(src).relu()))


class DecoderLayer(nn.TransformerDecoderLayer):
    def forward(
        self, tgt: Tensor, memory: Tensor, pos: Tensor, query_pos: Tensor, padded_IS: Tensor
    ) -> Tensor:
        q = k = tgt + query_pos
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
        query, key = tgt + query_pos, memory + pos
        read = self.multihead_attn(query, key, memory, key_padding_mask=padded_IS)[0]
        tgt = self.norm2(tgt + read)
        return self.norm3(tgt + self.linear2(self.linear1(tgt).relu()))


class LiteralDETR(nn.Module):
    """Everything but dropout; classes are COCO's 91 and "no object"."""

    def __init__(
        self, backbone="resnet50", width=256, heads=8, feedforward=2048, layers=6, queries=100
    ) -> None:
        super().__init__()
        resnet = torchvision.models.get_model(backbone, norm_layer=FrozenBatchNorm2d)
        channels = resnet.fc.in_features
        joined = nn.Module()
        joined.body = IntermediateLayerGetter(resnet, {"layer4": "0"})
        self.backbone = nn.Sequential(joined)
        self.input_proj = nn.Conv2d(channels, width, 1)
        self.transformer = nn.Module()
        layer = EncoderLayer(width, heads, feedforward, dropout=0.0)
        self.transformer.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        layer, norm = DecoderLayer(width, heads, feedforward, 0.0), nn.LayerNorm(width)
        self.transformer.decoder = nn.TransformerDecoder(layer, layers, norm)
        self.query_embed = nn.Embedding(queries, width)
        self.class_embed = nn.Linear(width, 92)
        self.bbox_embed = nn.Module()
        self.bbox_embed.layers = nn.ModuleList(nn.Linear(width, out) for out in (width, width, 4))

    def forward(self, pictures_ICHW: Tensor, padded_IHW: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised pictures -> memory ``(I, S, D)``, embeddings and boxes ``(L, I, N, .)``.

        `padded_IHW` is True on the tokens beside pictures.
        """
        src = self.input_proj(self.backbone[0].body(pictures_ICHW)["0"])
        pos = detr_positions(~padded_IHW, src.shape[1]).to(src.dtype)
        pos = pos.flatten(2).permute(2, 0, 1)
        padded_IS = padded_IHW.flatten(1)
        src = src.flatten(2).permute(2, 0, 1)
        for layer in self.transformer.encoder.layers:
            src = layer(src, pos, padded_IS)
        query_pos = self.query_embed.weight[:, None].expand(-1, src.shape[1], -1)
        tgt, intermediate = torch.zeros_like(query_pos), []
        for layer in self.transformer.decoder.layers:
            tgt = layer(tgt, src, pos, query_pos, padded_IS)
            intermediate.append(self.transformer.decoder.norm(tgt))
        hs = torch.stack(intermediate).transpose(1, 2)
        first, second, last = self.bbox_embed.layers
        boxes = last(second(first(hs).relu()).relu()).sigmoid()
        return src.transpose(0, 1), hs, boxes
