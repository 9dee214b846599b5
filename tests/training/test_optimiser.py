"""Which parameters are trained how, and rates as a function of progress."""

import math

import pytest
import torch

from models.dds import DDS
from training.optimiser import build_optimiser, rate_factor


@pytest.fixture(scope="module", params=["conv", "resnet18"])
def model(request):
    return DDS(32, 4, 32, 1, 1, 1, queries=5, backbone=request.param)


def group_of(optimiser, parameter):
    (group,) = (g for g in optimiser.param_groups if any(p is parameter for p in g["params"]))
    return group


@pytest.mark.parametrize("muon", [None, 3e-3])
def test_the_backbone_has_its_own_rate_and_vectors_and_embeddings_do_not_decay(model, muon):
    optimiser = build_optimiser(model, 1e-3, 1e-4, 0.05, muon)
    queries = {
        id(p)
        for module in model.modules()
        if isinstance(module, torch.nn.Embedding)
        for p in module.parameters()
    }
    assert len(queries) == 2
    for name, parameter in model.named_parameters():
        group, free = (
            group_of(optimiser, parameter),
            parameter.dim() == 1 or id(parameter) in queries,
        )
        rate = 1e-4 if name.split(".")[0] == "backbone" else 1e-3
        assert group["lr"] == (3e-3 if "momentum" in group else rate), name
        assert group["weight_decay"] == (0 if free else 0.05), name


def test_muon_trains_the_matrices_of_transformer_layers_alone(model):
    muon, adamw = build_optimiser(model, 1e-3, 1e-4, 0.05, 3e-3).parts
    (group,) = muon.param_groups
    assert all(parameter.dim() == 2 for parameter in group["params"])
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    by_muon = {names[id(parameter)] for parameter in group["params"]}
    rest = {names[id(p)] for group in adamw.param_groups for p in group["params"]}
    assert "relation_branch.temporal.layers.0.readout.weight" in by_muon
    assert {"object_class.weight", "input_proj.weight", "object_branch.query_embed.weight"} <= rest
    inside = {name for name in rest if ".layers." in name and not name.startswith("backbone.")}
    boxes = {
        f"{box}_box.layers.{n}.weight" for box in ("person", "object", "union") for n in range(3)
    }
    assert {name for name in inside if model.get_parameter(name).dim() > 1} == boxes


@pytest.mark.parametrize(
    ("name", "warmup", "epoch", "factor"),
    [
        ("cosine", 0, 0, 1),
        ("cosine", 0, 2.5, 0.5 * (1 + math.sqrt(0.5))),
        ("cosine", 0, 10, 0),
        ("cosine", 2, 0, 0),
        ("cosine", 2, 1, 0.5 * 0.5 * (1 + math.cos(math.pi / 10))),
        ("step", 0, 6.99, 1),
        ("step", 0, 7, 0.1),
        ("step", 1, 0.25, 0.25),
    ],
)
def test_the_rate_is_a_function_of_the_epoch(name, warmup, epoch, factor):
    assert rate_factor(name, epoch, 10, warmup, step_at=0.7) == pytest.approx(factor, abs=1e-12)
