"""Work shared over two ranks: the outputs and gradients of one rank, and equal work.

B blocks, T slots, R ranks.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bload import InputError
from models.criterion import Criterion, loss_divisors
from models.targets import to_tensors
from models.temporal import TEMPORAL_PARTS
from tests.models.conftest import annotate, random_input, tensors, tiny
from training.build import wrap_in_ddp

QUERIES = 5
PADDINGS = {
    "skipped": {"anchored": True, "dense": True, "time": "gap"},
    "computed": {"norm_first": False},
}
"""With each, changes of the model."""
LENGTHS = {
    "a-filler": ([[2, 4]], [[]], (6, 6)),
    "other-shapes": ([[2, 1], [3]], [[5, 2], [1]], (3, 7)),
}
"""Videos of each block of rank 0 and rank 1, and slots of their blocks."""


def make_batches(lengths):
    """For each rank frames with gaps, for rank 0 with extents too, and annotations."""
    *ranks, slots = lengths
    draw, batches = torch.Generator().manual_seed(0), []
    for rank, blocks in enumerate(ranks):
        inputs = random_input(blocks, slots[rank], seed=rank)
        shape = inputs.start_BT.shape
        extent_BT2 = torch.rand(*shape, 2, generator=draw) / 2 + 0.5 if rank == 0 else None
        gap_BT = torch.rand(shape, generator=draw) * 30
        inputs = replace(inputs, extent_BT2=extent_BT2, gap_BT=gap_BT)
        batches.append((inputs, annotate(rank, int(inputs.valid_BT.sum()))))
    return batches


def losses_of(model, batches, batch):
    """The outputs at valid slots, and the loss divided by the counts of all batches."""
    (inputs, annotations), valid_BT = batch, batch[0].valid_BT
    objects = [len(frame.object_classes_M) for _, frames in batches for frame in frames]
    outputs = model(inputs)
    total = loss_divisors(objects, QUERIES)
    loss = Criterion(1.0, "worst")(outputs, to_tensors(annotations), valid_BT, total)["loss"]
    values = {name: value[:, valid_BT] for name, value in tensors(outputs).items()}
    return {name: value.detach().numpy() for name, value in values.items()}, loss


def gradients_of(model):
    return {name: value.grad.numpy().copy() for name, value in model.named_parameters()}


def on_one_rank(lengths, changes, skips):
    model, batches = tiny(skip_padding=skips, **changes), make_batches(lengths)
    outputs = []
    for frames, annotations in batches:
        if frames.extent_BT2 is None:  # as a rank takes it whose neighbour has extents
            frames = replace(frames, extent_BT2=torch.ones(*frames.start_BT.shape, 2))
        values, loss = losses_of(model, batches, (frames, annotations))
        outputs.append(values)
        loss.backward()
    return outputs, gradients_of(model)


def on_a_rank(ranks, lengths, changes, skips):
    """This rank's outputs, the gradients that DDP leaves, and how many pictures it computes."""
    model, batches, seen = tiny(skip_padding=skips, **changes), make_batches(lengths), []
    model.exchange = True
    parallel = wrap_in_ddp(model, ranks)
    model.backbone.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    outputs, loss = losses_of(parallel, batches, batches[ranks.rank])
    (loss * ranks.world_size).backward()
    return outputs, gradients_of(model), seen


CASES = [
    *(("gru", name, padding) for name in LENGTHS for padding in PADDINGS),
    *((temporal, "other-shapes", "skipped") for temporal in TEMPORAL_PARTS if temporal != "gru"),
]
"""All that the ranks may hold with one temporal part, and once with every other."""


@pytest.mark.dist
@pytest.mark.parametrize(("temporal", "name", "padding"), CASES)
def test_two_ranks_give_outputs_and_gradients_of_one(two_ranks, temporal, name, padding):
    """All compute as many pictures; `tests.bload.test_spread` has three ranks share rows."""
    changes = PADDINGS[padding] | {"temporal": temporal}
    case = LENGTHS[name], changes, padding == "skipped"
    expected, gradients = on_one_rank(*case)
    found = two_ranks.run(on_a_rank, *case)
    assert max(abs(gradient).max() for gradient in gradients.values()) > 0.01
    for rank, (outputs, summed, _) in enumerate(found):
        for field, values in expected[rank].items():
            np.testing.assert_allclose(outputs[field], values, rtol=0, atol=1e-12, err_msg=field)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(summed[name], gradient, rtol=0, atol=1e-10, err_msg=name)
    assert np.ptp([pictures for _, _, pictures in found]) <= 1


def test_an_exchange_that_would_not_be_exact_is_refused(config):
    for option in ("loader.balance=uneven", "train.sync=local"):
        with pytest.raises(InputError, match=r"train\.exchange=frames needs"):
            config("train.exchange=frames", option)
