"""Positions in the picture: DETR's sine encoding, and anchors of a network.

DETR's plain queries need a checkpoint or hundreds of epochs to find their positions (Anchor DETR,
arXiv 2109.07107; DAB-DETR, arXiv 2201.12329); a small network from scratch does not get that long,
so its queries are anchored: a point for each, and the centre of the person in each frame.

I pictures, N queries and points, S tokens, D width, H heads.
"""

import math

import torch
from torch import Tensor, nn

FAR_WAVES = {"temperature": 10_000.0, "turns": 1.0}
"""Positions as in DETR, at the ends of tokens."""
NEAR_WAVES = {"temperature": 20.0, "turns": 2.0}
"""Positions whose similarity falls off within a quarter of the picture, for anchored networks."""
NARROW, WIDE = 1 / 12, 1 / 3
"""Standard deviations of the narrowest and the widest window, as shares of the picture."""


def sine_position(points: Tensor, dim: int, temperature: float, turns: float) -> Tensor:
    """Encode points (x, y) of 0..1: the row in the first half of D, the column in the second.

    Points ``(..., N, 2)`` are shares of the picture, so that all sizes have one scale; the position
    is ``(..., N, D)``. `dim` is D, a multiple of 4. `temperature` is the ratio of the fastest to
    the slowest wave and `turns` the turns of the fastest over the picture: 10,000 and 1 in DETR.

    Source: DETR (arXiv 2005.12872), ``PositionEmbeddingSine(normalize=True)``, whose pixel mask is
    here in the points; at the ends of tokens it is DETR's to rounding.
    """
    exponent = torch.arange(0, dim // 2, 2, device=points.device) / (dim // 2)
    frequency = 2 * math.pi * turns * temperature ** -exponent.to(points.dtype)

    def encode(share: Tensor) -> Tensor:
        angle = share[..., None] * frequency
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)

    x, y = points.unbind(-1)
    return torch.cat((encode(y), encode(x)), dim=-1)


def spread_points(count: int) -> Tensor:
    """Spread points (x, y) evenly over the picture, ``(N, 2)``, in rows of a grid.

    16 points make a 4 x 4 grid; for other counts rows differ by at most one point.
    """
    rows = max(1, round(math.sqrt(count)))
    points = []
    for row in range(rows):
        columns = count * (row + 1) // rows - count * row // rows
        points += [((column + 0.5) / columns, (row + 0.5) / rows) for column in range(columns)]
    return torch.tensor(points)


class Windows(nn.Module):
    """Attention windows around the points: a learned Gaussian per head (SMCA, arXiv 2101.07448).

    The first head starts without a window and sees the whole picture; the others start with widths
    from `WIDE` to `NARROW`.
    """

    points_N2: Tensor

    def __init__(self, queries: int, heads: int) -> None:
        super().__init__()
        self.register_buffer("points_N2", spread_points(queries), persistent=False)
        widths = torch.logspace(0, 1, heads - 1, base=NARROW / WIDE) * WIDE
        self.sharpness_H = nn.Parameter(torch.cat((torch.zeros(1), 0.5 / widths.square())))

    def forward(self, centres: Tensor) -> Tensor:
        """Return score biases ``(1 or I, H, N, S)`` of tokens at ``(S, 2)`` or ``(I, S, 2)``."""
        centres_I1S2 = centres.view(-1, 1, *centres.shape[-2:])
        distance_INS = (self.points_N2[:, None] - centres_I1S2).square().sum(-1)
        return -(self.sharpness_H[:, None, None] * distance_INS[:, None])


class PersonCentre(nn.Module):
    """Centre of the person in a frame: the mean centre of the tokens that look like a person.

    The mean is weighted by a softmax over all tokens (integral regression, arXiv 1711.08229).
    Person boxes are predicted relative to it, so that a query need not search the picture for the
    person.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.size_2 = nn.Parameter(torch.tensor([0.2, 0.35]).logit())
        """Width and height of a person, in logits."""

    def forward(
        self, tokens_ISD: Tensor, centres: Tensor, inside_IS: Tensor | None = None
    ) -> Tensor:
        """Return reference boxes ``(I, 1, 4)``: centre and size in logits.

        Centres of the tokens are ``(S, 2)`` or ``(I, S, 2)``; `inside_IS` is False outside the
        picture.
        """
        score_IS = self.score(tokens_ISD).squeeze(-1)
        if inside_IS is not None:
            score_IS = score_IS.masked_fill(~inside_IS, float("-inf"))
        centre_I2 = (score_IS.softmax(-1)[:, None] @ centres).squeeze(1).logit(eps=0.01)
        return torch.cat((centre_I2, self.size_2.expand_as(centre_I2)), dim=-1)[:, None]


def point_references(queries: int) -> Tensor:
    """Return boxes around the points, a quarter of the frame's sides, in logits ``(N, 4)``."""
    points_N2 = spread_points(queries)
    return torch.cat((points_N2.logit(), torch.full_like(points_N2, 0.25).logit()), dim=-1)
