"""A video longer than a block, in steps: what the network predicts is that of the uncut video."""

import pytest
import torch

from bload import BlockLoader
from datasets.build import build_source
from models.network_input import NetworkInput, frame_gaps
from models.temporal import TEMPORAL_PARTS
from tests.models.conftest import tiny
from training.step import open_row_states, pack_row_states


def predict(model, batch, before):
    """Class logits by video and position, and what the rows remember."""
    gap_BT = frame_gaps(batch)
    inputs = NetworkInput(batch.inputs_BT, batch.start_BT, batch.valid_BT, gap_BT=gap_BT)
    outputs = model(inputs, before)
    logits, valid_BT = outputs.class_logits_LBTNK[-1][batch.valid_BT], batch.valid_BT
    places = batch.sequence_BT[valid_BT].tolist(), batch.position_BT[valid_BT].tolist()
    found = dict(zip(zip(*places, strict=True), logits, strict=True))
    return found, outputs.state


def loaders(source, ranks):
    frames = 40 // ranks
    return [
        BlockLoader(source, t_max=10, long="carry", batch_slots=frames, rank=rank, world_size=ranks)
        for rank in range(ranks)
    ]


@pytest.mark.parametrize("temporal", TEMPORAL_PARTS)
def test_predictions_are_those_of_uncut_videos_also_after_a_checkpoint_on_other_ranks(
    small_job, temporal, tmp_path
):
    model = tiny(temporal=temporal, time="gap").eval()
    source = build_source(small_job.dataset, "train")
    found = {}
    with torch.no_grad():
        ranks, carried, steps = 1, [None], [iter(one) for one in loaders(source, 1)]
        for step in range(len(loaders(source, 1)[0])):
            for rank, batch in enumerate(map(next, steps)):
                predicted, carried[rank] = predict(model, batch, carried[rank])
                found |= predicted
            if step in (1, 3):  # the other number of ranks goes on
                torch.save([pack_row_states([one]) for one in carried], tmp_path / "carried.pt")
                saved, ranks = torch.load(tmp_path / "carried.pt", weights_only=True), 3 - ranks
                here = loaders(source, ranks)
                for one in here:
                    one.sampler.load_state_dict(one.sampler.state_dict(step + 1))
                carried = [open_row_states(saved, one, torch.device("cpu"))[0] for one in here]
                steps = [iter(one) for one in here]
        assert step == 4
        for batch in BlockLoader(source, "naive"):
            for place, logits in predict(model, batch, None)[0].items():
                torch.testing.assert_close(found.pop(place), logits)
    assert not found
