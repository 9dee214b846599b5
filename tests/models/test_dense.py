"""The dense side task on the encoder's tokens."""

import torch

from models.dense import dense_loss
from models.targets import to_tensors
from tests.models.conftest import annotate


def literal_loss(logits_FHWE, frames: list) -> float:
    """The definition, token by token; each picture may have a grid of its own."""
    total = 0.0
    for logits_HWE, frame in zip(logits_FHWE, frames, strict=True):
        sides = zip(logits_HWE.shape, frame.size_hw, strict=False)
        centres = [(torch.arange(cells) + 0.5).double() / cells * side for cells, side in sides]
        y, x = torch.meshgrid(*centres, indexing="ij")
        free = torch.ones_like(y, dtype=torch.bool)
        # The person is class 1, and has no relations to itself.
        boxes = [frame.person_box_4, *frame.object_boxes_M4]
        kinds = [1, *frame.object_classes_M]
        for box, kind, relations in zip(boxes, kinds, [None, *frame.relations_MR()], strict=True):
            left, top, right, bottom = map(float, box)
            inside = (left <= x) & (x < right) & (top <= y) & (y < bottom)
            free &= ~inside
            for logits in logits_HWE[inside]:
                loss = -logits[:37].log_softmax(0)[kind]
                if relations is not None:
                    attention, labels = torch.from_numpy(relations).double().split((3, 23))
                    loss -= (attention * logits[37:40].log_softmax(0)).sum()
                    chance = logits[40:].sigmoid()
                    loss -= (labels * chance.log() + (1 - labels) * (1 - chance).log()).sum()
                total += float(loss) / int(inside.sum())
        for logits in logits_HWE[free]:
            share = len(frame.object_classes_M) / int(free.sum())
            total -= share * float(logits[:37].log_softmax(0)[0])
    return total


def test_dense_loss_is_its_definition_on_the_tokens_of_each_picture():
    frames = annotate(3, 6)
    valid_BT = torch.tensor([[True, True, True, False], [True, True, True, False]])
    logits = torch.randn(2, 4, 8, 10, 37 + 26, dtype=torch.float64, requires_grad=True)
    loss = dense_loss(logits, to_tensors(frames), valid_BT)
    wanted = literal_loss(logits.detach()[valid_BT], frames)
    torch.testing.assert_close(loss.item(), wanted, rtol=1e-6, atol=0)
    # Boxes may reach a rounding beyond the picture, but not to what is beside it.
    for box in (frames[1].person_box_4, frames[1].object_boxes_M4[0]):
        box[:] = (0, 0, 40.00001, 30.00001)
    rows_columns = torch.tensor([(8, 10), (4, 10), (8, 5), (1, 1), (3, 7), (2, 9)])
    extent_BT2 = torch.zeros(2, 4, 2)
    extent_BT2[valid_BT] = rows_columns.flip(-1) / torch.tensor([10, 8])
    loss = dense_loss(logits, to_tensors(frames), valid_BT, extent_BT2)
    loss.backward()
    own = [
        picture[:rows, :columns]
        for picture, (rows, columns) in zip(logits.detach()[valid_BT], rows_columns, strict=True)
    ]
    torch.testing.assert_close(loss.item(), literal_loss(own, frames), rtol=1e-6, atol=0)
    for gradient, (rows, columns) in zip(logits.grad[valid_BT], rows_columns, strict=True):
        assert gradient[:rows, :columns, 0].all()
        assert not gradient[rows:].any()
        assert not gradient[:, columns:].any()
