"""Layers of other libraries on packed blocks compute what they compute on each sequence alone."""

import torch
from tensordict import TensorDict
from torchrl.modules import GRUModule
from x_transformers import Decoder

from bload import BlockLoader, check_boundaries, from_dataset

torch.manual_seed(0)
SEQUENCES = [torch.randn(n, 8) for n in (7, 3, 12, 1, 9, 5, 8)]
(BATCH,) = BlockLoader(from_dataset(SEQUENCES, length=len), t_max=16, batch_slots=64)


def by_torchrl(frames_BT, start_BT):
    shape = start_BT.shape
    names = {"frames": frames_BT, "is_init": start_BT[..., None]}
    names["state"] = torch.zeros(*shape, 1, 16)
    return torchrl(TensorDict(names, shape))["outputs"]


torchrl = GRUModule(8, 16, in_keys=["frames", "state"], out_keys=["outputs", ("next", "state")])
decoder = Decoder(dim=8, depth=2, heads=2, alibi_pos_bias=True)
FORMS = {
    "TorchRL": (
        lambda batch: by_torchrl(batch.inputs_BT, batch.start_BT),
        lambda frames: by_torchrl(frames[None], torch.arange(len(frames))[None] == 0)[0],
    ),
    "x-transformers": (
        lambda batch: decoder(batch.inputs_BT, attn_mask=batch.attention_mask()),
        lambda frames: decoder(frames[None])[0],
    ),
}
for name, (packed, alone) in FORMS.items():
    assert check_boundaries(packed, BATCH, alone=alone) < 1e-5, name
