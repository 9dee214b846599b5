"""Name the instrument of a recording and its notes: ``python examples/audio.py``, or torchrun."""

import os
from itertools import groupby

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, ctc_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence

from bload import Batch, BlockLoader, check_boundaries, from_dataset, mean_loss, unpack

RATE, NOTES, OVERTONES = 8000, 5, ((1, 0, 0), (0.3, 1, 0), (0.3, 0, 1))  # of each instrument


def recording(number: int, rng: np.random.Generator) -> tuple[np.ndarray, dict]:
    """Play 2 to 8 notes of 60 to 140 ms; return log spectra of the sound and targets."""
    instrument, notes, parts = number % 3, rng.integers(NOTES, size=rng.integers(2, 9)), []
    for note in notes:
        phase = 2 * np.pi * 250 * 2 ** (note / NOTES) * np.arange(rng.integers(480, 1120)) / RATE
        tones = [a * np.sin(k * phase) for k, a in enumerate(OVERTONES[instrument], start=1)]
        parts += [sum(tones), np.zeros(400)]
    sound = np.concatenate(parts)
    sound += rng.normal(0, 0.04, len(sound))
    pieces = np.lib.stride_tricks.sliding_window_view(sound, 256)[::128] * np.hanning(256)
    frames = np.log(np.abs(np.fft.rfft(pieces)[:, :48]) + 0.1).astype(np.float32)
    return frames, {"instrument": instrument, "notes": (notes + 1).tolist()}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(48, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 1 + NOTES + len(OVERTONES))  # blank, notes, instruments

    def forward(self, batch: Batch) -> Tensor:
        packed, _ = self.gru(batch.to_packed(batch.inputs_BT))  # each recording alone
        return self.head(batch.from_packed(packed))


def loss_sum(logits_BT: Tensor, batch: Batch) -> Tensor:
    if not len(batch.segments):  # no recording for this rank in the last step
        return logits_BT.sum() * 0
    lengths_S, notes_S = batch.segments.length_S, batch.targets_S["notes"]
    logits_TS = pad_sequence(logits_BT[batch.valid_BT].split(lengths_S.tolist()))
    notes_TS = logits_TS[..., : 1 + NOTES].log_softmax(-1)
    many_S = torch.tensor([len(notes) for notes in notes_S])
    notes_N = torch.tensor([note for notes in notes_S for note in notes])
    written = ctc_loss(notes_TS, notes_N, lengths_S, many_S, reduction="sum")
    named_S = batch.mean(logits_BT[..., 1 + NOTES :])
    return written + cross_entropy(named_S, batch.targets_S["instrument"], reduction="sum")


@torch.no_grad()
def scores(model: Model, loader: BlockLoader) -> str:
    outputs = [one for batch in loader for one in unpack(model(batch), batch, gather=True)]
    named = written = 0.0
    for sequence, _, logits_T in outputs:
        target = items[sequence][1]
        best = groupby(logits_T[:, : 1 + NOTES].argmax(1).tolist())
        written += [note for note, _ in best if note] == target["notes"]
        named += float(logits_T[:, 1 + NOTES :].sum(0).argmax() == target["instrument"])
    return f"{named / len(outputs):.0%} of instruments, {written / len(outputs):.0%} of transcripts"


if "WORLD_SIZE" in os.environ:  # under torchrun
    dist.init_process_group("gloo")  # for CPUs, as this program
torch.manual_seed(0)
rng = np.random.default_rng(0)
items = [recording(number, rng) for number in range(260)]
sources = [
    from_dataset(some, length=lambda item: len(item[0]), targets_per="sequence", objects="notes")
    for some in (items[60:], items[:60])
]
loader, unseen = (BlockLoader(source, t_max=96, batch_slots=2 * 96) for source in sources)
model = Model()
net = DistributedDataParallel(model) if dist.is_initialized() else model
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
check_boundaries(model, next(iter(loader)))
before = scores(model, unseen)
for epoch in range(5):
    loader.set_epoch(epoch)  # new blocks
    for batch in loader:
        loss = mean_loss(loss_sum(net(batch), batch), batch, len(batch.segments))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
after = scores(model, unseen)
if loader.sampler.rank == 0:
    print(loader)
    print(f"right on unseen recordings: {before} before; {after} after")
