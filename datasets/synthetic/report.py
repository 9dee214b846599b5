"""Tables of a split as text: recall of observers of limited memory, and age of the evidence."""

import numpy as np
from tabulate import tabulate

from datasets.annotations.vocabulary import ATTENTION, CONTACTING
from datasets.synthetic import observers
from datasets.synthetic.evidence import evidence_ages
from datasets.synthetic.script import write_scripts
from datasets.synthetic.world import World

MEMORIES = (1, 2, 5, 10, 20)
"""Frames that observers remember, the present one included; and one remembers everything."""


def observers_report(world: World, split: str) -> str:
    """The figures of `split` in percent, expected over codes and realised on those drawn."""
    scripts = write_scripts(world, split)
    age_G = np.concatenate([age for script in scripts for age in evidence_ages(script)])
    relation_G = np.concatenate(
        [target.relations_G2[:, 1] for script in scripts for target in script.targets()]
    )
    ages: list[tuple[object, ...]] = [("k", *MEMORIES)]
    for name, of_G in (
        ("attention", relation_G < ATTENTION.stop),
        ("contacting", relation_G >= CONTACTING.start),
        ("all", slice(None)),
    ):
        ages.append((name, *(100 * np.mean(age_G[of_G] >= k) for k in MEMORIES)))

    kinds = [*((f"R@{k}", f"recall@{k}") for k in observers.KS), ("R@20 mem", "recall@20_memory")]
    columns = {f"{c}\n{head}": f"{c}/{key}" for c in observers.LISTS for head, key in kinds}
    recalls = []
    for memory in (*MEMORIES, observers.EVERYTHING):
        name = "all" if memory == observers.EVERYTHING else str(memory)
        for label, recall in (
            (name, observers.expected_recall),
            ("realised", observers.realised_recall),
        ):
            figures = recall(scripts, memory)
            recalls.append((label, *(100 * figures[column] for column in columns.values())))
    return (
        f"{split} split: {len(scripts):,} videos, {sum(s.frames for s in scripts):,} frames, "
        f"{len(age_G):,} triplets, {np.count_nonzero(age_G >= 1):,} of which depend on memory\n\n"
        "Triplets (%) whose evidence is k or more frames old, of those of each kind\n"
        f"{tabulate(ages, 'firstrow', 'plain', floatfmt='.2f')}\n\n"
        "Best Recall@K (%) of observers that remember k frames, and realised on the codes drawn;\n"
        f"{', '.join(f'{c}: {title}' for c, title in observers.LISTS.items())}\n"
        f"{tabulate(recalls, ('k', *columns), 'plain', floatfmt='.2f', colalign=('left',))}"
    )
