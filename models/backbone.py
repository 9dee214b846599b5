"""Backbones: from frames to grids of features, one frame at a time.

I pictures, C channels, H and W pixels or tokens. No backbone mixes frames: batch norm is frozen
(its statistics are constants) and the small stack uses group norm, so a frame's features never
depend on what else is in the block.

A backbone is called with frames ``(I, 3, H, W)``, zero outside the pictures, and `inside_IHW`,
bool, False outside the pictures, or None if all fill the canvas. Its ``channels`` are those of its
output.
"""

from collections import OrderedDict
from itertools import pairwise

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, Bottleneck
from torchvision.ops import FrozenBatchNorm2d


class FrozenNorm(FrozenBatchNorm2d):
    """Frozen norm of torchvision, as one operation in the input's precision; bf16 stays bf16."""

    def forward(self, x: Tensor) -> Tensor:
        scale_C = self.weight * (self.running_var + self.eps).rsqrt()
        shift_C = self.bias - self.running_mean * scale_C
        shift, scale = torch.stack((shift_C, scale_C)).to(x.dtype)[..., None, None]
        return torch.addcmul(shift, x, scale)


class ResNet(nn.Sequential):
    """The stages of a ResNet.

    As in DETR, the canvas outside a picture is not masked: frozen norms gather no statistics there,
    but after the first layer it is no longer zero, and the tokens along the border see it.
    """

    channels: int

    def forward(self, frames_ICHW: Tensor, inside_IHW: Tensor | None = None) -> Tensor:
        return super().forward(frames_ICHW)


def resnet(name: str) -> ResNet:
    """Build ResNet-50 (2,048 channels) or 18 (512) up to its stride of 32 (arXiv 1512.03385)."""
    network = torchvision.models.get_model(name, norm_layer=FrozenNorm)
    blocks = [block for block in network.modules() if isinstance(block, BasicBlock | Bottleneck)]
    # A frozen norm with no statistics normalises nothing: without this, every residual block
    # would double the variance. A checkpoint overwrites these buffers.
    for block in blocks:
        last_norm = block.bn3 if isinstance(block, Bottleneck) else block.bn2
        last_norm.get_buffer("weight").fill_(len(blocks) ** -0.5)
    backbone = ResNet(OrderedDict(list(network.named_children())[:-2]))  # no avgpool, no fc
    backbone.channels = network.fc.in_features
    return backbone


class Conv(nn.Sequential):
    """Three strided convolutions, for tiny frames: stride 8, 128 channels, 7 MMAC at 64 pixels.

    The canvas does not change a picture's features: norms leave out what is outside the picture,
    and every layer finds zeros there.
    """

    channels = 128

    def __init__(self) -> None:
        super().__init__()
        for in_channels, out_channels in pairwise((3, 16, 64, self.channels)):
            self.append(nn.Conv2d(in_channels, out_channels, 3, stride=2, padding=1, bias=False))
            self.append(nn.GroupNorm(8, out_channels))
            self.append(nn.ReLU(inplace=True))

    def forward(self, frames_ICHW: Tensor, inside_IHW: Tensor | None = None) -> Tensor:
        if inside_IHW is None:
            return super().forward(frames_ICHW)
        features = frames_ICHW
        layers = iter(self)
        for conv, norm, relu in zip(layers, layers, layers, strict=True):
            assert isinstance(norm, nn.GroupNorm)
            inside_IHW = inside_IHW[:, ::2, ::2]
            features = relu(masked_group_norm(norm, conv(features), inside_IHW))
            features = features.masked_fill(~inside_IHW[:, None], 0)
        return features


def masked_group_norm(norm: nn.GroupNorm, features_ICHW: Tensor, inside_IHW: Tensor) -> Tensor:
    """Apply `norm` with statistics only from inside the pictures."""
    grouped = features_ICHW.to(norm.weight.dtype).unflatten(1, (norm.num_groups, -1))
    inside = inside_IHW[:, None, None]
    count = inside.sum((-1, -2), keepdim=True) * grouped.shape[2]

    def mean(values: Tensor) -> Tensor:
        return (values * inside).sum((2, 3, 4), keepdim=True) / count

    centred = grouped - mean(grouped)
    normed = centred * (mean(centred.square()) + norm.eps).rsqrt()
    return normed.flatten(1, 2) * norm.weight[:, None, None] + norm.bias[:, None, None]


class Pointwise(nn.Conv2d):
    """A 1 x 1 convolution whose outputs are tokens, ``(I, C, H, W)`` -> ``(I, H, W, D)``.

    On channels-last features it is one matrix product.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__(channels, width, 1)

    def forward(self, features_ICHW: Tensor) -> Tensor:
        return F.linear(features_ICHW.movedim(1, -1), self.weight.flatten(1), self.bias)


def build_backbone(name: str) -> ResNet | Conv:
    """Build a backbone of `models.config.BACKBONES`."""
    return Conv() if name == "conv" else resnet(name)


def freeze_first_stage(backbone: nn.Module) -> None:
    """Freeze all before a ResNet's second stage, as DETR does with pretrained weights.

    Other backbones have no such stage and stay as they are.
    """
    for name, child in backbone.named_children():
        if name in ("conv1", "layer1"):
            child.requires_grad_(False)
