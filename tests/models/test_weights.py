"""Pretrained weights compute here what they compute where they come from."""

import pytest
import torch
import torchvision
from torch import nn

from bload.errors import InputError
from models import build_model
from models.position import FAR_WAVES, sine_position, token_centres, token_ends
from models.weights import fill, load_weights, read_weights
from tests.models.literal_detr import LiteralDETR, detr_positions

SMALL = {"width": 16, "heads": 2, "feedforward": 24, "queries": 7}
TEMPORAL = {"temporal_layers": 1, "dropout": 0.0, "backbone": "resnet18", "norm_first": False}


@torch.no_grad()
def randomise(network: nn.Module) -> None:
    """Give every tensor, the statistics of frozen norms too, values that matter."""
    draw = torch.Generator().manual_seed(3)
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=draw, dtype=torch.float64) - 0.5
            near_one = "running_var" in name or ("weight" in name and tensor.dim() == 1)
            tensor.copy_(1 + noise if near_one else tensor + 0.2 * noise)


@pytest.fixture
def detr():
    torch.manual_seed(5)
    network = LiteralDETR("resnet18", **SMALL, layers=2).double()
    randomise(network)
    return network


@pytest.fixture
def detr_file(detr, tmp_path):
    torch.save({"model": detr.state_dict()}, tmp_path / "detr.pth")
    return str(tmp_path / "detr.pth")


@pytest.fixture
def small():
    def build(**changes):
        torch.manual_seed(0)
        layers = {"encoder_layers": 2, "decoder_layers": 2}
        return build_model(**(SMALL | TEMPORAL | layers | changes)).double()

    return build


def starting(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(("height", "width"), [(15, 20), (1, 3), (19, 34)])
def test_positions_are_detrs_at_the_ends_of_tokens_and_half_a_token_off_at_centres(height, width):
    everywhere = torch.ones(1, height, width, dtype=torch.bool)
    wanted = detr_positions(everywhere, 256)[0].flatten(1).t()
    like = torch.zeros(1)
    ours = sine_position(token_ends(height, width, like), 256, **FAR_WAVES)
    torch.testing.assert_close(ours, wanted, rtol=0, atol=2e-5)
    half = torch.tensor((0.5 / width, 0.5 / height))
    moved = sine_position(token_centres(height, width, like) + half, 256, **FAR_WAVES)
    torch.testing.assert_close(moved, wanted, rtol=0, atol=2e-5)
    centres = sine_position(token_centres(height, width, like), 256, **FAR_WAVES)
    assert (centres - wanted).abs().max() > 0.08


def test_detrs_weights_compute_here_what_they_compute_in_detr(detr, detr_file, small):
    model = small()
    load_weights(model, detr_file)
    frames = torch.randint(0, 256, (1, 3, 3, 64, 96), dtype=torch.uint8)
    start = torch.tensor([[True, False, True]])
    pictures = (frames[0] / 255.0 - model.pixel_mean) / model.pixel_std
    memory_wanted, embeddings_wanted, boxes_wanted = detr(pictures)
    tokens = model.encode(frames[0])
    assert tokens.grid == (2, 3)
    torch.testing.assert_close(tokens.memory_ISD, memory_wanted, rtol=0, atol=1e-5)
    for branch in (model.object_branch, model.relation_branch):
        embeddings = branch.decoder(branch.query_embed.weight, tokens.placed_ISD, tokens.memory_ISD)
        torch.testing.assert_close(embeddings, embeddings_wanted, rtol=0, atol=1e-5)
    outputs = model(frames, start)
    for boxes in (
        outputs.person_boxes_LBTN4,
        outputs.object_boxes_LBTN4,
        outputs.union_boxes_LBTN4,
    ):
        torch.testing.assert_close(boxes[:2, 0], boxes_wanted, rtol=0, atol=1e-5)


def test_detrs_weights_compute_here_what_they_compute_in_detr_with_its_padding_mask(
    detr, detr_file, small
):
    model = small()
    load_weights(model, detr_file)
    draw = torch.Generator().manual_seed(1)
    frames = torch.randint(0, 256, (1, 3, 3, 96, 128), generator=draw, dtype=torch.uint8)
    extent = torch.tensor([[[1.0, 1.0], [0.5, 1.0], [0.75, 1 / 3]]])
    pictures = (frames[0] / 255.0 - model.pixel_mean) / model.pixel_std
    padded_IHW = torch.zeros(3, 3, 4, dtype=torch.bool)
    padded_IHW[1, :, 2:] = padded_IHW[2, :, 3:] = padded_IHW[2, 1:] = True
    pixels = padded_IHW.repeat_interleave(32, 1).repeat_interleave(32, 2)
    pictures = pictures.masked_fill(pixels[:, None], 0)
    memory_wanted, _, boxes_wanted = detr(pictures, padded_IHW)
    tokens = model.encode(frames[0], extent[0])
    seen = ~padded_IHW.flatten(1)
    torch.testing.assert_close(tokens.memory_ISD[seen], memory_wanted[seen], rtol=0, atol=1e-5)
    start = torch.tensor([[True, False, True]])
    boxes = model(frames, start, extent_BT2=extent).object_boxes_LBTN4
    torch.testing.assert_close(boxes[:2, 0], boxes_wanted, rtol=0, atol=1e-5)
    blind = model(frames, start).object_boxes_LBTN4
    assert (blind[:2, 0] - boxes_wanted).abs().max() > 1e-3


def test_a_resnet_computes_here_what_it_computes_in_torchvision(tmp_path, small):
    resnet = torchvision.models.resnet18(weights=None)
    randomise(resnet)
    torch.save(resnet.state_dict(), tmp_path / "resnet18.pth")
    model = small()
    before = starting(model)
    report = load_weights(model, str(tmp_path / "resnet18.pth"))
    features = nn.Sequential(*list(resnet.double().eval().children())[:-2])
    pictures = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    torch.testing.assert_close(model.backbone(pictures), features(pictures))
    for name, tensor in model.state_dict().items():
        assert name.startswith("backbone.") or torch.equal(tensor, before[name])
    assert [*report.loaded] == ["backbone"]
    assert {*report.unused} == {"fc", "num_batches_tracked"}


def test_published_shapes_fit_the_full_model():
    with torch.device("meta"):
        detr, model = LiteralDETR(), build_model()
        resnet = torchvision.models.resnet50(weights=None)
    state = detr.state_dict()
    # As published, less the 53 step counters that frozen batch norm does not have.
    assert len(state) == 265 + 2 + 6 * 12 + 6 * 18 + 2 + 1 + 2 + 6
    assert state["query_embed.weight"].shape == (100, 256)
    assert state["input_proj.weight"].shape == (256, 2048, 1, 1)
    assert state["transformer.encoder.layers.0.self_attn.in_proj_weight"].shape == (768, 256)
    report = fill(model, state, "detr.pth")
    assert report.loaded["backbone"][0] == 265
    assert report.loaded["encoder"] == (6 * 12, 7_890_432)
    assert report.loaded["object_branch.decoder"] == report.loaded["relation_branch.decoder"]
    assert report.loaded["union_box"] == (6, 132_612)
    assert {*report.unused} == {"class_embed"}
    temporal = ["object_branch.temporal", "relation_branch.temporal"]
    assert [*report.kept] == [*temporal, "object_class", "relation"]
    assert len(str(report).splitlines()) == 4
    assert fill(model, resnet.state_dict(), "resnet50").loaded == {
        "backbone": report.loaded["backbone"]
    }


def test_of_more_layers_and_queries_the_first_are_loaded(detr, detr_file, small):
    model = small(encoder_layers=1, decoder_layers=1, queries=3)
    report = load_weights(model, detr_file)
    queries = detr.query_embed.weight
    assert torch.equal(model.relation_branch.query_embed.weight, queries[:3])
    assert {*report.unused} == {
        *("class_embed", "query_embed 3 to 6"),
        *("transformer.encoder.layers.1", "transformer.decoder.layers.1"),
    }


def test_layers_and_queries_beyond_the_file_keep_their_start(detr, detr_file, small):
    model = small(encoder_layers=3, decoder_layers=4, queries=9)
    before = starting(model)
    report = load_weights(model, detr_file)
    after = model.state_dict()
    for name in ("encoder.layers.2.self_attn.in_proj_weight", "object_branch.decoder.layers.3"):
        for full in after:
            assert not full.startswith(name) or torch.equal(after[full], before[full])
    query = "object_branch.query_embed.weight"
    assert torch.equal(after[query][:7], detr.query_embed.weight)
    assert torch.equal(after[query][7:], before[query][7:])
    assert report.kept["encoder.layers.2"] == "the file has 2 layers"
    assert report.kept["object_branch.query_embed 7 to 8"] == "the file has 7 queries"
    assert "relation_branch.decoder.layers.3" in report.kept


def test_a_part_of_another_shape_is_left_alone_and_both_shapes_are_told(detr_file, small):
    model = small(feedforward=32)
    before = starting(model)
    report = load_weights(model, detr_file)
    wrong = "encoder.layers.0.feedforward.linear1.weight is (32, 16), in the file (24, 16)"
    assert report.kept["encoder"] == wrong
    assert wrong in str(report)
    assert "transformer.encoder.layers.0" in report.unused
    for name, tensor in model.state_dict().items():
        assert not name.startswith("encoder.") or torch.equal(tensor, before[name])
    assert "person_box" in report.loaded


@pytest.mark.parametrize("feature", ["norm_first", "anchored"])
def test_a_network_that_computes_otherwise_takes_the_backbone_alone(detr_file, small, feature):
    report = load_weights(small(**{feature: True}), detr_file)
    assert [*report.loaded] == ["backbone"]
    assert feature in report.kept["encoder"]


def test_another_resnet_is_refused_by_both_names(detr_file, tmp_path, small):
    with torch.device("meta"):
        model, own = build_model(), build_model(backbone="conv")
    with pytest.raises(InputError, match="has the backbone resnet18 and the model resnet50"):
        load_weights(model, detr_file)
    with pytest.raises(InputError, match="resnet18 and the model none that is a ResNet"):
        load_weights(own, detr_file)
    wide = torchvision.models.resnet18(weights=None).state_dict()
    wide["conv1.weight"] = torch.zeros(32, 3, 7, 7)
    with pytest.raises(InputError, match=r"conv1.weight is \(64, 3, 7, 7\), in the file \(32, 3,"):
        fill(small(), wide, "wide.pth")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "there is no file"),
        (b"not weights", "cannot be read as weights"),
        ({"model": {"a.weight": torch.zeros(2)}}, "it holds a.weight"),
        ([1, 2], "it holds no tensors"),
    ],
)
def test_files_that_fit_nothing_are_refused(tmp_path, small, content, sentence):
    path = tmp_path / "file.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(InputError, match=sentence) as error:
        load_weights(small(), str(path))
    assert str(path) in str(error.value)


def test_no_code_in_a_file_is_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "proof"), "w")

    torch.save({"model": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(InputError, match="cannot be read as weights"):
        read_weights(str(tmp_path / "evil.pth"))
    assert not (tmp_path / "proof").exists()


def test_a_url_is_fetched_once_and_a_bad_one_is_told(detr_file, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path / "hub"))
    first = read_weights(f"file://{detr_file}")
    assert [path.name for path in (tmp_path / "hub").rglob("*.pth")] == ["detr.pth"]
    (tmp_path / "detr.pth").unlink()
    assert read_weights(f"file://{detr_file}").keys() == first.keys()
    with pytest.raises(InputError, match=r"none\.pth could not be downloaded"):
        read_weights(f"file://{tmp_path}/none.pth")


@pytest.mark.parametrize("word", ["resnet50", "resnet18"])
def test_words_stand_for_torchvisions_default_files(word, monkeypatch):
    asked = []

    def fetch(url, **options):
        asked.append((url, options["check_hash"], options["weights_only"]))
        return {}

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", fetch)
    read_weights(word)
    ((url, checked, safe),) = asked
    assert url.startswith(f"https://download.pytorch.org/models/{word}-")
    assert checked
    assert safe
