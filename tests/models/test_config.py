"""What is built from the config of a network."""

from dataclasses import replace

from models import build_model
from tests.models.conftest import SMALL


def test_a_network_is_built_from_every_key_that_is_computed():
    changes = {"width": 24, "heads": 3, "feedforward": 20, "encoder_layers": 2, "queries": 7}
    changes |= {"decoder_layers": 3, "temporal_layers": 1, "dropout": 0.25, "temporal": "gru"}
    changes |= {"norm_first": False, "anchored": True, "dense": True, "time": "gap"}
    model = build_model(replace(SMALL, weights="nowhere.pth", recompute="auto", **changes))
    branch = model.relation_branch
    layer = model.encoder.layers[1]
    assert (layer.self_attn.heads, layer.self_attn.dropout) == (3, 0.25)
    assert layer.feedforward.linear1.weight.shape == (20, 24)
    assert (len(branch.decoder.layers), len(branch.temporal.layers)) == (3, 1)
    assert branch.query_embed.weight.shape == (7, 24)
    assert "GRU" in type(branch.temporal.layers[0].memory).__name__
    assert not layer.sublayer1.norm_first
    assert None not in (model.reference, model.dense, branch.gap, branch.windows)
