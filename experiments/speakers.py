"""Real speakers: is the start table worth anything on sequences that nobody made for it?

    pip download aeon --no-deps                  # the data are a file in its wheel
    python -m experiments.speakers aeon-*.whl    # measures, 25 minutes on one core

`experiments.open_questions` prints the table. Predictions: dev/LOG.md, "Open questions".
"""

from itertools import product
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bload import Batch, BlockLoader, from_dataset, mean_loss
from datasets.files import exit_on_input_error, reading
from examples.vowels import utterances
from experiments.intervals import signed, t_interval
from experiments.study import RESULTS, make_parser, markdown, write_rows

RATES, CHOOSING, SEEDS, EPOCHS = (1e-3, 3e-3, 1e-2), (100, 101), range(20), 30


def name_speakers(train: list, test: list, starts: bool, rate: float, seed: int) -> dict:
    """Train a one-way GRU to name the speaker in every frame, with the start table or without.

    Returns the frames named rightly, in percent, if the test utterances are read alone, and as one
    stream in which the state is never cleared.
    """
    torch.manual_seed(seed)
    gru, head = nn.GRU(12, 64, batch_first=True), nn.Linear(64, 9)

    def scores(batch: Batch, starts: bool) -> Tensor:
        if not starts:
            return head(gru(batch.inputs_BT)[0])
        return head(batch.from_packed(gru(batch.to_packed(batch.inputs_BT))[0]))

    lengths, test_lengths = ([len(frames) for frames, _ in items] for items in (train, test))
    loader = BlockLoader(from_dataset(train, lengths), t_max=63, batch_slots=252, seed=seed)
    optimiser = torch.optim.Adam([*gru.parameters(), *head.parameters()], rate)
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            scores_FK, target_F = scores(batch, starts)[batch.valid_BT], batch.targets_BT
            losses = cross_entropy(scores_FK, target_F[batch.valid_BT], reduction="sum")
            optimiser.zero_grad()
            mean_loss(losses, batch).backward()
            optimiser.step()
    row = {"starts": starts, "rate": rate, "seed": seed}
    source = from_dataset(test, test_lengths)
    (stream,) = BlockLoader(source, t_max=sum(test_lengths), seed=seed)  # one block of all
    with torch.no_grad():
        for way, cleared in (("alone", True), ("stream", False)):
            right_BT = scores(stream, cleared).argmax(-1) == stream.targets_BT
            row[way] = 100 * float(right_BT.float().mean())
    return row


def measure(wheel: Path) -> list[dict]:
    """Choose a rate for each way on a fifth of the training split; then train on all of it."""
    torch.set_num_threads(1)
    with reading(wheel, "pip download aeon --no-deps gets it"):
        splits = [utterances(str(wheel), split) for split in ("TRAIN", "TEST")]
    train, test = (
        [(x_TC, torch.full((len(x_TC),), speaker)) for x_TC, speaker in split] for split in splits
    )
    part = [item for number, item in enumerate(train) if number % 5], train[::5]
    measured: list[dict] = []
    for starts in (True, False):
        rows = [name_speakers(*part, starts, *job) for job in product(RATES, CHOOSING)]
        best = pd.DataFrame(rows).groupby("rate").alone.mean().idxmax()
        finals = [name_speakers(train, test, starts, best, seed) for seed in SEEDS]
        measured += [{"stage": "rate"} | row for row in rows]
        measured += [{"stage": "final"} | row for row in finals]
    return measured


def table(rows: pd.DataFrame) -> str:
    """Tabulate the frames that are named rightly, with the table and without it, by seed."""
    final = rows[rows.stage == "final"].pivot(columns="starts", index="seed")
    cells = []
    for way in ("alone", "stream"):
        table, none = final[way, True], final[way, False]
        cells.append([way, t_interval(table).text(), t_interval(none).text(), signed(table - none)])
    heads = ["with the start table", "without it", "with minus without, by seed"]
    return markdown(cells, ["frames named rightly, %; utterances are read", *heads])


if __name__ == "__main__":
    parser = make_parser("speakers", __doc__)
    parser.add_argument("wheel", type=Path, help="of the data")
    with exit_on_input_error():
        rows = measure(parser.parse_args().wheel)
        write_rows(RESULTS / "open_questions/speakers.csv", rows)
