"""Training starts from weights when it starts anew, and never needs the file again."""

import pytest
import torch
import torchvision

from tests.training.jobs import checkpoint, one_rank, only_run, train_until
from training.checkpoint import load_model

SMALL = (
    *("model.backbone=resnet18", "model.width=16", "model.feedforward=16"),
    *("train.epochs=1", "train.checkpoint_minutes=0", "train.lr=0", "train.backbone_lr=0"),
)


@pytest.fixture
def resnet(tmp_path):
    torch.manual_seed(9)
    state = torchvision.models.resnet18(weights=None).state_dict()
    torch.save(state, tmp_path / "resnet18.pth")
    return state


def test_a_run_starts_from_the_file_and_goes_on_and_is_evaluated_without_it(
    config, tmp_path, resnet, capsys
):
    job = config(*SMALL, f"model.weights={tmp_path}/resnet18.pth")
    train_until(one_rank(), job, (0, 1))
    folder = only_run(tmp_path / "runs")
    said = capsys.readouterr().out
    assert said.count("weights of a ResNet from") == 1
    assert "warning" not in said
    # The rates are zero, so what the first step saved is what it began with.
    for name, tensor in checkpoint(folder)["model"].items():
        if name.startswith("backbone."):
            torch.testing.assert_close(tensor, resnet[name.removeprefix("backbone.")])

    (tmp_path / "resnet18.pth").unlink()
    train_until(one_rank(), job, (0, 2))
    said = capsys.readouterr().out
    assert "going on from" in said
    assert "weights of" not in said
    model, _ = load_model(folder / "last.pt", torch.device("cpu"))
    torch.testing.assert_close(model.backbone.conv1.weight.detach(), resnet["conv1.weight"])


def test_with_weights_the_first_stage_stays_and_the_rest_is_trained(config, tmp_path, resnet):
    rates = ("train.lr=1e-3", "train.backbone_lr=1e-3", "train.warmup_epochs=0")
    job = config(*SMALL, *rates, f"model.weights={tmp_path}/resnet18.pth")
    train_until(one_rank(), job, (0, 1))
    trained = checkpoint(only_run(tmp_path / "runs"))["model"]
    for name in ("conv1.weight", "layer1.1.conv2.weight", "layer2.0.conv1.weight"):
        frozen = not name.startswith("layer2")
        assert torch.equal(trained[f"backbone.{name}"], resnet[name]) == frozen
