"""The dense side task on the encoder's tokens."""

import numpy as np
import torch

from models import Criterion, counts, to_tensors
from models.dense import dense_loss


def literal_loss(logits_FHWE: torch.Tensor, frames: list) -> float:
    """The definition, token by token."""
    total = 0.0
    for logits_HWE, frame in zip(logits_FHWE, frames, strict=True):
        rows, columns = logits_HWE.shape[:2]
        height, width = frame.size_hw
        centres = [
            (row, column, (column + 0.5) / columns * width, (row + 0.5) / rows * height)
            for row in range(rows)
            for column in range(columns)
        ]
        free = set(range(len(centres)))
        # The person is class 1, and has no relations to itself.
        boxes = [frame.person_box_4, *frame.object_boxes_M4]
        kinds = [1, *frame.object_classes_M]
        for box, kind, relations in zip(boxes, kinds, [None, *frame.relations_MR()], strict=True):
            inside = [
                i
                for i, (_, _, x, y) in enumerate(centres)
                if box[0] <= x < box[2] and box[1] <= y < box[3]
            ]
            free -= set(inside)
            for i in inside:
                logits = logits_HWE[centres[i][0], centres[i][1]]
                loss = -logits[:37].log_softmax(0)[kind]
                if relations is not None:
                    wanted = torch.from_numpy(relations).double()
                    loss -= (wanted[:3] * logits[37:40].log_softmax(0)).sum()
                    chance = logits[40:].sigmoid()
                    loss -= (wanted[3:] * chance.log()).sum()
                    loss -= ((1 - wanted[3:]) * (1 - chance).log()).sum()
                total += float(loss) / len(inside)
        for i in free:
            logits = logits_HWE[centres[i][0], centres[i][1]]
            share = len(frame.object_classes_M) / len(free)
            total -= share * float(logits[:37].log_softmax(0)[0])
    return total


def test_dense_loss_is_its_definition(annotate):
    frames = annotate(np.random.default_rng(3), 6)
    valid_BT = torch.tensor([[True, True, True, False], [True, True, True, False]])
    logits = torch.randn(2, 4, 5, 7, 37 + 26, dtype=torch.float64)
    loss = dense_loss(logits, to_tensors(frames), valid_BT)
    torch.testing.assert_close(
        float(loss), literal_loss(logits[valid_BT], frames), rtol=1e-6, atol=0
    )


def test_only_training_has_the_dense_task(tiny):
    model = tiny(dense=True)
    frames, start = torch.zeros(1, 2, 3, 32, 32, dtype=torch.uint8), torch.ones(1, 2, dtype=bool)
    assert model(frames, start).dense_logits_BTHWE.shape == (1, 2, 4, 4, 37 + 26)
    assert model.eval()(frames, start).dense_logits_BTHWE is None


def test_filler_alone_gives_the_dense_task_zero_gradients(tiny):
    model = tiny(dense=True, anchored=True)
    frames = torch.zeros(1, 2, 3, 32, 32, dtype=torch.uint8)
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    targets = to_tensors([])
    losses = Criterion()(model(frames, nothing, nothing), targets, nothing, counts(targets, 5))
    losses["loss"].backward()
    assert losses["loss"].item() == 0
    assert all(parameter.grad.abs().max() == 0 for parameter in model.parameters())
