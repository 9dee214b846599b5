"""What observers of limited memory reach on a split, and how old its evidence is, as a table."""

from collections.abc import Sequence

import numpy as np

from datasets.annotations.vocabulary import ATTENTION, CONTACTING
from datasets.synthetic.evidence import evidence_ages
from datasets.synthetic.observers import (
    EVERYTHING,
    KS,
    LISTS,
    PART,
    expected_recall,
    realised_recall,
)
from datasets.synthetic.script import Script, write_scripts
from datasets.synthetic.world import World

MEMORIES = (1, 2, 5, 10, 20)
"""Frames that observers remember, the present one included; and one remembers everything."""


def observers_report(world: World, split: str) -> str:
    """The figures of `split` in percent, expected over codes and realised on those drawn."""
    scripts = write_scripts(world, split)
    age_G = np.concatenate([age for script in scripts for age in evidence_ages(script)])
    columns = [f"{c}/recall@{k}" for c in LISTS for k in KS]
    columns += [f"{c}/recall@20_{PART}" for c in LISTS]
    lines = [
        f"{split} split: {len(scripts):,} videos, {sum(s.frames for s in scripts):,} frames, "
        f"{len(age_G):,} triplets, of which {np.count_nonzero(age_G >= 1):,} depend on memory",
        "",
        "Triplets (%) whose evidence is k or more frames old, of those of each kind",
        "k".ljust(12) + "".join(f"{k:>8}" for k in MEMORIES),
    ]
    for name, share_K in evidence_shares(scripts).items():
        lines.append(name.ljust(12) + "".join(f"{100 * share:8.2f}" for share in share_K))
    titles = "".join(f"{title} ({constraint})".ljust(36) for constraint, title in LISTS.items())
    heads = [f"R@{k}" for k in KS] + ["R@20 mem"]
    order = [c for name in LISTS for c in columns if c.startswith(name)]
    lines += [
        "",
        "Best Recall@K (%) of observers that remember k frames; second line: on the codes drawn",
        " " * 12 + titles.rstrip(),
        "k".ljust(12) + "".join(f"{head:>9}" for head in heads * len(LISTS)),
    ]
    for memory in (*MEMORIES, EVERYTHING):
        name = "all" if memory == EVERYTHING else str(memory)
        for label, recall in ((name, expected_recall), ("  realised", realised_recall)):
            figures = recall(scripts, memory)
            lines.append(
                label.ljust(12) + "".join(f"{100 * figures[column]:9.2f}" for column in order)
            )
    return "\n".join(lines)


def evidence_shares(scripts: Sequence[Script]) -> dict[str, list[float]]:
    """Shares of triplets whose evidence is k or more frames old, for each k of `MEMORIES`."""
    age_G = np.concatenate([age for script in scripts for age in evidence_ages(script)])
    relation_G = np.concatenate(
        [target.relations_G2[:, 1] for script in scripts for target in script.targets()]
    )
    kinds = {
        "attention": relation_G < ATTENTION.stop,
        "contacting": relation_G >= CONTACTING.start,
        "all": np.ones(len(relation_G), dtype=bool),
    }
    return {
        name: [float(np.mean(age_G[of_G] >= k)) for k in MEMORIES] for name, of_G in kinds.items()
    }
