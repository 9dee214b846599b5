"""What a recurrent layer walks with, and layers of several parts that walk together.

B blocks, T slots, S segments, N queries, D width, X numbers of an input, G parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from bload.state import RecurrentPart, first_state, walk
from models.temporal.timeline import Timeline


class Recurrence(RecurrentPart[Any], Protocol):
    """A step from slot to slot, which `bload.walk` takes, and the same for all slots at once."""

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """Those of the operator, for one part."""

    def operator(self, timeline: Timeline, *tensors: Tensor) -> Tensor:
        """All states ``(W, N, D)``.

        Of inputs ``(W, N, X)``, first states ``(G, S, N, D)`` and the weights of G parts.
        """


@dataclass(frozen=True)
class Begun:
    """A layer that has done what it does before it walks."""

    recurrence: Recurrence
    inputs_BTNX: Tensor
    finish: Callable[[Tensor], Tensor]
    """What is left to do, from memories ``(B, T, N, D)`` to outputs."""

    def by_slots(self, start_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the outputs and the state after the last slot."""
        with exactly(start_BT.device):
            memory, state = walk(self.recurrence, self.inputs_BTNX, start_BT, state, "slots")
        return self.finish(memory), state


def by_segments(
    begun_G: Sequence[Begun], timelines: Sequence[Timeline], state_G: Sequence[Any]
) -> tuple[list[Tensor], list[Tensor]]:
    """Walk layers of several parts together; return the outputs of each, and their last states.

    Between the chunks of the timelines states pass, their gradients do not; nor do the last ones'.
    """
    slots = [len(timeline.order.slot_V) // len(timeline.order.last_B) for timeline in timelines]
    inputs_G = zip(*(begun.inputs_BTNX.split(slots, dim=1) for begun in begun_G), strict=True)
    chunks = []
    with exactly(begun_G[0].inputs_BTNX.device):
        recurrences = [begun.recurrence for begun in begun_G]
        for timeline, inputs in zip(timelines, inputs_G, strict=True):
            chunks.append(_memories(recurrences, inputs, timeline, state_G))
            state_G = chunks[-1][:, :, -1].detach().unbind()
    memories = (chunks[0] if len(chunks) == 1 else torch.cat(chunks, dim=2)).unbind()
    outputs = [begun.finish(memory) for begun, memory in zip(begun_G, memories, strict=True)]
    return outputs, list(state_G)


def exactly(device: torch.device) -> torch.autocast:
    """Within it autocast is off: roundings of half precision would add up over the slots."""
    return torch.autocast(device.type, enabled=False)


def _memories(
    recurrences: Sequence[Recurrence],
    inputs_G: Sequence[Tensor],
    timeline: Timeline,
    state_G: Sequence[Any],
) -> Tensor:
    order, inputs = timeline.order, timeline.packed(inputs_G)
    like = inputs[: len(order.block_S)]
    first = [
        first_state(order, recurrence.init_state(like), state)
        for recurrence, state in zip(recurrences, state_G, strict=True)
    ]
    weights = zip(*(recurrence.weights for recurrence in recurrences), strict=True)
    stacked = (torch.stack(tuple(tensors)) for tensors in (first, *weights))
    return timeline.unpacked(recurrences[0].operator(timeline, inputs, *stacked))
