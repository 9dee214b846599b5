"""The form in which a module gives each sequence of a block the outputs that it has alone."""

from unittest import mock

import pytest
import torch
from torch import nn

from bload import BlockLoader, InputError, from_dataset
from examples.forms import FORMS, find_form
from tests.bload.conftest import Cell

MODULES = {
    "inputs": nn.Linear(8, 8),
    "packed": nn.GRU(8, 8, 2, bidirectional=True, batch_first=True),
    "walk": Cell(),
}


@pytest.mark.parametrize(("name", "model"), MODULES.items(), ids=MODULES)
def test_a_module_is_called_in_the_form_that_it_obeys(name, model, batch):
    assert find_form(model, batch) == name
    assert FORMS[name](model, batch).shape[:2] == batch.valid_BT.shape


def test_each_part_keeps_its_mode_and_the_random_state_is_left_as_it_is(batch):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
    model[0].eval()
    seeded = torch.get_rng_state()
    with mock.patch.object(torch.cuda, "manual_seed_all") as seed_of_gpus:
        assert find_form(model, batch) == "inputs"
    assert not seed_of_gpus.called
    assert [part.training for part in model.modules()] == [True, False, True]
    assert torch.equal(torch.get_rng_state(), seeded)


def test_a_model_that_no_form_keeps_apart_is_refused_with_each_reason(batch):
    model = nn.GRU(8, 8, batch_first=True)
    with pytest.raises(InputError, match=r"packer='bucket'.*inputs: .*sequence"):
        find_form(nn.Sequential(nn.Linear(8, 8), model, First()), batch)
    source = from_dataset([torch.randn(4, 8)] * 2, length=len)
    alone = next(iter(BlockLoader(source, "single")))
    assert find_form(nn.Sequential(model, First()), alone) == "inputs"


class First(nn.Module):
    def forward(self, outputs):
        return outputs[0]
