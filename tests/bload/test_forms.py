"""The form in which a module gives each sequence of a block the outputs that it has alone."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from bload import InputError, find_form
from tests.bload.conftest import Cell

ENCODER = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
MASK = "~batch.attention_mask(False).expand(-1, {}, -1, -1).flatten(0, 1)"


class Counter(nn.Module):
    """Counts its calls in buffers, in place and by new ones."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("more", torch.zeros(()))

    def forward(self, values_BT):
        self.calls += 1
        self.more = self.more + 1
        return values_BT


FORMS = {
    "any form": (nn.Linear(8, 8), "model(batch.inputs_BT)"),
    "a GRU": (
        nn.GRU(8, 8, 2, bidirectional=True, batch_first=True),
        "batch.from_packed(model(batch.to_packed(batch.inputs_BT))[0])",
    ),
    "an encoder": (
        nn.TransformerEncoder(ENCODER, 2, enable_nested_tensor=False),
        f"model(batch.inputs_BT, {MASK.format(2)})",
    ),
    "attention": (
        nn.MultiheadAttention(8, 4, batch_first=True),
        f"model(*3 * [batch.inputs_BT], attn_mask={MASK.format(4)})[0]",
    ),
    "a cell": (Cell(), "walk(model, batch.inputs_BT, batch.start_BT)[0]"),
    "an unknown layer": (
        nn.Sequential(nn.Linear(8, 8), nn.GRU(8, 8, batch_first=True)),
        'model(batch.inputs_BT)  # in batches of packer="single"',
    ),
}


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize(("model", "call"), FORMS.values(), ids=FORMS)
def test_a_module_of_torch_is_called_in_the_form_that_it_obeys(model, call, copy, batch):
    assert find_form(model, batch, copy=copy).call == call


def test_the_model_its_buffers_its_modes_and_the_random_state_are_left_as_they_are(batch):
    model = nn.Sequential(Counter(), nn.Dropout())
    model[1].eval()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    seeded = torch.get_rng_state()
    for copy in (True, False):
        find_form(model, batch, copy=copy)
        assert [part.training for part in model.modules()] == [True, True, False]
        assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
        assert torch.equal(torch.get_rng_state(), seeded)


def test_a_copy_in_float32_takes_a_batch_in_half_precision(batch):
    half = replace(batch, inputs_BT=batch.inputs_BT.bfloat16())
    assert find_form(nn.Linear(8, 8).bfloat16(), half).call == "model(batch.inputs_BT)"


def test_a_model_that_cannot_be_tried_is_refused_with_what_it_needs(batch):
    with pytest.raises(InputError, match=r"next\(iter\(loader\)\)"):
        find_form(nn.Linear(8, 8))
    with pytest.raises(InputError, match="inputs are one tensor"):
        find_form(nn.Linear(8, 8), replace(batch, inputs_BT={"frames": batch.inputs_BT}))
    with pytest.raises(InputError, match=r"model\(sequence\[None\]\) fails"):
        find_form(nn.Linear(9, 9), batch)
