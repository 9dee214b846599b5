"""Pretrained weights compute here what they compute where they come from."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn
from torch.optim.swa_utils import AveragedModel

from bload.errors import InputError
from models import build_model
from models.config import DETR_URL
from models.dds import DDS
from models.network_input import NetworkInput
from models.weights import copy_tensors, load_weights
from tests.models.conftest import FULL, tensors
from tests.models.literal_detr import LiteralDETR

SIZES = {"width": 16, "heads": 2, "feedforward": 24, "queries": 7}
LAYERS = {"encoder_layers": 2, "decoder_layers": 2, "temporal_layers": 1, "dropout": 0.0}


@torch.no_grad()
def randomise(network: nn.Module) -> None:
    """Give every tensor, the statistics of frozen norms too, values that matter."""
    draw = torch.Generator().manual_seed(3)
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=draw, dtype=torch.float64) - 0.5
            near_one = "running_var" in name or ("weight" in name and tensor.dim() == 1)
            tensor.copy_(1 + noise if near_one else tensor + 0.2 * noise)


@pytest.fixture(scope="module")
def detr():
    torch.manual_seed(5)
    network = LiteralDETR("resnet18", **SIZES, layers=2).double()
    randomise(network)
    return network


@pytest.fixture(scope="module")
def detr_file(detr, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "detr.pth"
    torch.save({"model": detr.state_dict()}, path)
    return str(path)


def small(**changes) -> DDS:
    torch.manual_seed(0)
    changes = {"backbone": "resnet18"} | SIZES | LAYERS | changes
    return build_model(replace(FULL, **changes)).double()


def starting(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_detrs_weights_compute_here_what_they_compute_in_detr(detr, detr_file):
    model = small()
    load_weights(model, detr_file)
    draw = torch.Generator().manual_seed(1)
    frames = torch.randint(0, 256, (1, 3, 3, 96, 128), generator=draw, dtype=torch.uint8)
    start = torch.tensor([[True, False, True]])
    padded_IHW = torch.zeros(3, 3, 4, dtype=torch.bool)
    blind = model(NetworkInput(frames, start))
    for extent in (None, torch.tensor([[[1.0, 1.0], [0.5, 1.0], [0.75, 1 / 3]]])):
        if extent is not None:
            padded_IHW[1, :, 2:] = padded_IHW[2, :, 3:] = padded_IHW[2, 1:] = True
        pixels = padded_IHW.repeat_interleave(32, 1).repeat_interleave(32, 2)
        pictures = (frames[0] / 255.0 - model.pixel_mean) / model.pixel_std
        pictures = pictures.masked_fill(pixels[:, None], 0)
        memory_wanted, embeddings_wanted, boxes_wanted = detr(pictures, padded_IHW)
        extent_I2 = None if extent is None else extent[0]
        tokens = model.build_tokens(model.encode(frames[0], extent_I2), extent_I2)
        seen = ~padded_IHW.flatten(1)
        torch.testing.assert_close(tokens.memory_ISD[seen], memory_wanted[seen], rtol=0, atol=1e-5)
        if extent is None:
            for branch in (model.object_branch, model.relation_branch):
                queries = branch.query_embed.weight
                found = branch.decoder(queries, tokens.placed_ISD, tokens.memory_ISD)
                torch.testing.assert_close(found, embeddings_wanted, rtol=0, atol=1e-5)
        for name, boxes in tensors(model(NetworkInput(frames, start, extent_BT2=extent))).items():
            if "boxes" in name:
                torch.testing.assert_close(boxes[:2, 0], boxes_wanted, rtol=0, atol=1e-5)
    assert (blind.object_boxes_LBTN4[:2, 0] - boxes_wanted).abs().max() > 1e-3


@torch.no_grad()
def test_a_network_of_frames_starts_one_with_a_memory(tmp_path):
    frames, memory = small(temporal="none").eval(), small(temporal="dds", queries=5).eval()
    randomise(frames)
    torch.save({"model": frames.state_dict(), "config": {}}, tmp_path / "last.pt")
    before = starting(memory)
    report = load_weights(memory, str(tmp_path / "last.pt"))
    assert report.startswith("weights of a checkpoint from ")
    for name, tensor in memory.state_dict().items():
        there = frames.state_dict().get(name)
        fits = there is not None and there.shape == tensor.shape
        assert torch.equal(tensor, there if fits else before[name]), name
    assert "as they started: object_branch.query_embed, " in report
    average = AveragedModel(frames).state_dict()
    randomise(frames)
    torch.save({"model": frames.state_dict(), "average": average}, tmp_path / "ema.pt")
    load_weights(memory, str(tmp_path / "ema.pt"))
    name = "person_box.layers.0.weight"
    assert torch.equal(memory.state_dict()[name], average[f"module.{name}"])


@torch.no_grad()
def test_published_shapes_fit_the_full_model():
    with torch.device("meta"):
        detr, model = LiteralDETR(), build_model(FULL)
        resnet = torchvision.models.resnet50(weights=None)
    state = detr.state_dict()
    # As published, less the 53 step counters that frozen batch norm does not have.
    assert len(state) == 265 + 2 + 6 * 12 + 6 * 18 + 2 + 1 + 2 + 6
    report = copy_tensors(model, state, "detr.pth").splitlines()
    assert len(report) == 4
    for part in ("backbone (265)", "encoder (72)", "object_branch.decoder (110)", "union_box (6)"):
        assert part in report[1]
    assert report[2] == "  not used: class_embed"
    parts = ("object_branch.temporal", "relation_branch.temporal", "object_class", "relation")
    assert report[3].split(": ")[1].split(", ") == [*parts]
    assert "backbone (265)\n" in copy_tensors(model, resnet.state_dict(), "resnet50")


def test_the_first_layers_and_queries_that_both_sides_have_are_loaded(detr, detr_file):
    query, queries = "object_branch.query_embed.weight", detr.query_embed.weight
    less = small(encoder_layers=1, decoder_layers=1, queries=3)
    report = load_weights(less, detr_file)
    assert torch.equal(less.state_dict()[query], queries[:3])
    layers = [f"transformer.{stack}coder.layers.1" for stack in ("de", "en")]
    assert f"  not used: class_embed, {', '.join(layers)}\n" in report
    more = small(encoder_layers=3, decoder_layers=4, queries=9, feedforward=32)
    before = starting(more)
    report = load_weights(more, detr_file)
    after = more.state_dict()
    kept = ("encoder.layers.2.", "object_branch.decoder.layers.3.", "encoder.layers.0.feedforward.")
    for name in after:
        if name.startswith(kept) and name != "encoder.layers.0.feedforward.linear2.bias":
            assert torch.equal(after[name], before[name])
    assert torch.equal(after[query][:7], queries)
    assert torch.equal(after[query][7:], before[query][7:])
    assert "as they started: encoder.layers.0, encoder.layers.1, encoder.layers.2, " in report


@pytest.mark.parametrize("feature", ["norm_first", "anchored"])
def test_a_network_that_computes_otherwise_takes_the_backbone_alone(detr_file, feature):
    report = load_weights(small(**{feature: True}), detr_file)
    assert re.search(rf"{feature}.*\n  loaded: backbone \(\d+\)\n", report)


def test_another_backbone_is_refused(detr_file):
    with torch.device("meta"):
        model, own = build_model(FULL), build_model(replace(FULL, backbone="conv"))
    for other in (model, own):
        with pytest.raises(InputError, match=r"detr\.pth does not fit the model's backbone"):
            load_weights(other, detr_file)
    resnet = torchvision.models.resnet18(weights=None).state_dict()
    wide = resnet | {"conv1.weight": torch.zeros(32, 3, 7, 7)}
    with pytest.raises(InputError, match=r"conv1.weight is \(64, 3, 7, 7\), in the file \(32, 3,"):
        copy_tensors(small(), wide, "wide.pth")
    with pytest.raises(InputError, match=r"the model has no layer3\.2\.conv1\.weight"):
        copy_tensors(small(), resnet | {"layer3.2.conv1.weight": torch.zeros(1)}, "more.pth")


class Evil:
    """Opens a file where it is unpickled."""

    def __reduce__(self):
        return open, ("proof", "w")


def test_files_that_fit_nothing_are_refused_and_no_code_in_them_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contents = {"list": [1, 2], "other": {"model": {"a.weight": torch.zeros(2)}}, "evil": Evil()}
    for name, content in contents.items():
        torch.save(content, name)
    Path("text").write_text("not weights")
    url = "http://127.0.0.1:9/detr-r50-e632da11.pth"  # nobody answers there
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    for name, words in (
        ("missing", rf"no file missing; .* detr, resnet50.*{DETR_URL}"),
        (url, "refused"),
        *(("text", "UnpicklingError"), ("evil", "UnpicklingError")),
        *(("other", "fit the model's backbone"), ("list", "fit the model's backbone")),
    ):
        with pytest.raises(InputError, match=words) as error:
            load_weights(small(backbone="conv"), name)
        assert name in str(error.value)
    assert not Path("proof").exists()
