"""Laws of lengths of other kinds of data, by published quantiles, and where they are from.

Between two published quantiles, or edges of a published histogram, the logarithm of a length grows
evenly. Where the longest of all is far beyond the last quantile, the tail between is that of a
Pareto law; its exponent alone is fitted, to the published mean and standard deviation.
"""

from dataclasses import dataclass

import numpy as np

PERCENT = (0, 1, *range(5, 100, 5), 99, 100)
DOLMA = (
    "github.com/AnswerDotAI/bert24, src/data/source_stats.jsonl at commit b3234d3: percentiles, "
    "mean and standard deviation of {} in a fifth of Dolma, split at \\W+"
)


@dataclass(frozen=True)
class Law:
    """A published distribution of lengths."""

    data: str
    unit: str
    source: str
    percent: tuple[float, ...]
    """Of the sequences that have at most the length in `quantiles`, from 0 to 100."""
    quantiles: tuple[float, ...]
    mean: float
    """Published, as `std` is; NaN if not."""
    std: float
    cut: int
    """The length to which training often cuts what is longer."""
    tail: float = 0
    """Exponent between the last two quantiles; 0 if the logarithm grows evenly there too."""

    @property
    def about(self) -> str:
        return f"{self.data}, {self.unit}. {self.source}"

    def lengths(self, share: np.ndarray) -> np.ndarray:
        """Return the whole length that this share of the sequences, 0 to 1, does not exceed."""
        known = np.array(self.percent) / 100
        found = np.exp(np.interp(share, known, np.log(self.quantiles)))
        if self.tail:
            low, high = self.quantiles[-2:]
            beyond = np.clip((share - known[-2]) / (1 - known[-2]), 0, 1)
            far = low * (1 - beyond * (1 - (low / high) ** self.tail)) ** (-1 / self.tail)
            found = np.where(share > known[-2], far, found)
        return np.maximum(found.round(), 1).astype(np.int64)

    def draw(self, count: int, seed: int) -> np.ndarray:
        """Draw random lengths, int64 ``(count,)``."""
        return self.lengths(np.random.default_rng(seed).random(count))


def _shares(counts: tuple[int, ...]) -> tuple[float, ...]:
    """The percentages up to the edges of a histogram."""
    return tuple((100 * np.cumsum([0, *counts]) / sum(counts)).tolist())


LAWS = {
    "instructions": Law(
        data="FLAN, as in Dolma",
        unit="words",
        source=DOLMA.format("tulu_flan"),
        percent=PERCENT,
        quantiles=(
            *(4, 22, 31, 40, 46, 54, 62, 71, 81, 92, 104, 118, 132, 149, 168, 192, 227, 272, 339),
            *(449, 928, 1314, 15_500),
        ),
        mean=212.10,
        std=278.46,
        cut=2048,
        tail=5,
    ),
    "web text": Law(
        data="C4, as in Dolma",
        unit="words",
        source=DOLMA.format("c4"),
        percent=PERCENT,
        quantiles=(
            *(2, 26, 46, 64, 81, 98, 117, 138, 162, 188, 217, 250, 288, 330, 379, 437, 506, 594),
            *(719, 916, 1336, 3080, 39_750),
        ),
        mean=434.40,
        std=684.06,
        cut=2048,
        tail=2.7,
    ),
    "speech": Law(
        data="LibriSpeech, train-clean-360 at three speeds",
        unit="frames of 10 ms",
        source=(
            "github.com/k2-fsa/icefall, egs/librispeech/ASR/local/display_manifest_statistics.py: "
            "percentiles, mean and standard deviation of the seconds of 312,042 utterances"
        ),
        percent=(0, 0.1, 0.5, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 100),
        quantiles=(
            *(100, 180, 220, 250, 420, 620, 1120, 1370, 1530, 1660, 1730, 1810, 1840, 1880),
            3300,
        ),
        mean=1270,
        std=380,
        cut=2000,
    ),
    "proteins": Law(
        data="UniProtKB/TrEMBL",
        unit="residues",
        source=(
            "UniProt's table of sequences by size, as kept in "
            "github.com/meyresearch/amino_acid_distance_distributions, "
            "data/pdb_statistics/UniProt_TrEMBL_by_length.txt at commit d0e6c30: 1 to 2,500 "
            "residues; 0.3 % are longer, the table does not say how long, and left out. Mean: "
            "Unipept's wiki, Important statistics, all of UniProt 2023.3"
        ),
        percent=_shares(
            (
                *(2477342, 17830632, 22080184, 21375841, 21190802, 21097520, 19330110, 15057716),
                *(12803438, 10228216, 7218648, 5431216, 4052296, 3211657, 2718640, 2292278),
                *(1830634, 1557049, 1211371, 943517, 1620535, 1134421, 804734, 523469, 404002),
                *(302769, 229449, 179073, 157667, 134254, 104592, 95169, 78986, 62196, 54031),
            )
        ),
        quantiles=(1, *range(50, 1000, 50), *range(1000, 2501, 100)),
        mean=348.88,
        std=float("nan"),
        cut=1024,
    ),
}
"""Kind of data -> law. The cuts: contexts of 2,048, as many language models were trained with; 20 s
as icefall keeps; 1,024 residues as ESM-2 takes."""
