"""How many bf16 operations a second a card can do: by its data sheet, and measured."""

import re
import time
from dataclasses import dataclass

import torch

DATASHEETS = (
    ("H100 PCIe", 756e12, "nvidia.com, H100 Tensor Core GPU data sheet"),
    ("H100 NVL", 835e12, "nvidia.com, H100 Tensor Core GPU data sheet"),
    ("H100", 989e12, "nvidia.com, H100 Tensor Core GPU data sheet, SXM"),
    ("GH200", 990e12, "nvidia.com, GH200 Grace Hopper data sheet"),
    ("H200", 989e12, "nvidia.com, H200 Tensor Core GPU data sheet"),
    ("A100", 312e12, "nvidia.com, A100 Tensor Core GPU data sheet"),
    ("A10", 125e12, "nvidia.com, A10 Tensor Core GPU data sheet"),
    ("A40", 149.7e12, "nvidia.com, A40 data sheet"),
    ("A30", 165e12, "nvidia.com, A30 Tensor Core GPU data sheet"),
    ("L40S", 362e12, "nvidia.com, L40S data sheet"),
    ("L4", 121e12, "nvidia.com, L4 Tensor Core GPU data sheet"),
    ("RTX 4090", 165.2e12, "nvidia.com, Ada GPU architecture, float32 sums"),
    ("RTX 3090", 71e12, "nvidia.com, GA102 GPU architecture, float32 sums"),
)
"""Words of torch's name of a card, dense bf16 operations a second, source; the first that fits.

Data sheets print the double for matrices with two zeros in four.
"""
REPEATS, AT_ONCE = 5, 10


@dataclass(frozen=True, slots=True)
class Peak:
    """Dense bf16 operations a second; a multiply-add counts as two."""

    card: str
    measured: float
    """Best of a few products of large matrices."""
    datasheet: float | None
    source: str | None

    @property
    def value(self) -> float:
        """That of the data sheet, of a card that is not known the one that was measured."""
        return self.datasheet or self.measured


def card_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def find_peak(device: torch.device, size: int) -> Peak:
    """Look a card up and time products of random matrices of `size` rows and columns."""
    card = card_name(device)
    known = next((entry for entry in DATASHEETS if re.search(rf"\b{entry[0]}\b", card)), None)
    measured = multiply(device, size)
    return Peak(card, measured, *known[1:]) if known else Peak(card, measured, None, None)


def multiply(device: torch.device, size: int) -> float:
    """Operations a second of a bf16 matrix product, the best of a few."""
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    found = []
    for _ in range(1 + REPEATS):  # the first one warms up
        began = time.perf_counter()
        for _ in range(AT_ONCE):
            product = left @ right
        product[0, 0].item()  # waits
        found.append(time.perf_counter() - began)
    return AT_ONCE * 2 * size**3 / min(found[1:])
