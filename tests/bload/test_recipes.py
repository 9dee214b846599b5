"""Recipes of docs/data.md and docs/recipes.md that need files, processes or a loss."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from bload import BlockLoader, mean_loss
from tests.installation import ROOT, run

h5py = pytest.importorskip("h5py")
LENGTHS = [3, 9, 5, 8]


def code_of(name: str) -> str:
    """The code block of a class in the page."""
    pages = [(ROOT / f"docs/{page}.md").read_text() for page in ("data", "recipes")]
    blocks = re.findall(r"^```py\n(.*?)^```$", "\n".join(pages), re.S | re.M)
    (code,) = [block for block in blocks if block.startswith(f"class {name}:")]
    return code


PROGRAM = """
import sys
import h5py
from bload import BlockLoader

{code}

if __name__ == "__main__":
    loader = BlockLoader(
        Videos(sys.argv[1]), num_workers=2, multiprocessing_context=sys.argv[2], batch_slots=18
    )
    for batch in loader:
        assert (batch.inputs_BT[..., 0] == batch.sequence_BT.where(batch.valid_BT, 0)).all()
    print(loader.steps)
"""


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_hdf5_is_read_in_workers(context, tmp_path):
    with h5py.File(tmp_path / "videos.h5", "w") as file:
        for sequence, length in enumerate(LENGTHS):
            file[f"video{sequence}"] = np.full((length, 2), sequence)
    program = Path(tmp_path / "program.py")
    program.write_text(PROGRAM.format(code=code_of("Videos")))
    more = {"PYTHONPATH": str(ROOT)}
    assert run([sys.executable, program, "videos.h5", context], tmp_path, more=more) == "2\n"


def test_an_unreadable_sequence_counts_for_nothing():
    class Broken:
        lengths = LENGTHS

        def read(self, sequence, first, length, epoch):
            if sequence == 0:
                raise OSError("file is gone")
            frames = torch.arange(first, first + length)[:, None] + 10.0 * sequence
            return frames, torch.full((length,), sequence % 2)

    *definition, loss_code = code_of("Readable").partition("count = ")
    names = {"mean_loss": mean_loss, "cross_entropy": cross_entropy, "torch": torch}
    exec("".join(definition[:1]), names)
    (batch,) = BlockLoader(names["Readable"](Broken(), good=1), batch_slots=100)
    logits_BT = torch.cat([batch.inputs_BT, -batch.inputs_BT], dim=-1)
    given = names | {"batch": batch, "logits_BT": logits_BT}
    exec("count = " + loss_code, given, made := {})
    source = Broken()
    items = [source.read(s, 0, n, 0) for s, n in enumerate(LENGTHS) if s]
    logits = torch.cat([torch.cat([frames, -frames], dim=-1) for frames, _ in items])
    expected = cross_entropy(logits, torch.cat([labels for _, labels in items]))
    torch.testing.assert_close(made["loss"], expected)
