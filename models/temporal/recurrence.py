"""What a recurrent layer walks with, and layers of several parts that walk together.

B blocks, T slots, S segments, N queries, D width, X numbers of an input, G parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from bload.state import RecurrentPart, first_state, walk
from models.temporal.compiled import memories
from models.temporal.operator import walked
from models.temporal.timeline import Timeline

Order = Timeline | Tensor
"""In a graph that is compiled the starts alone, ``(B, T)``."""


class Recurrence(RecurrentPart[Any], Protocol):
    """A step from slot to slot, which `bload.walk` takes, and the same for all slots at once."""

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """Those of the operator, for one part."""

    operator: ClassVar[str]
    """A key of `models.temporal.operator.OPERATORS`."""

    @property
    def options(self) -> tuple[int, ...]:
        """What the operator takes between ``rows_T`` and ``place_W``."""


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
    begun_G: Sequence[Begun], timelines: Sequence[Order], state_G: Sequence[Any]
) -> tuple[list[Tensor], list[Tensor]]:
    """Walk layers of several parts together; return the outputs of each, and their last states.

    Between the chunks of the timelines states pass, their gradients do not; nor do the last ones'.
    """
    slots = [one.shape[1] if isinstance(one, Tensor) else one.slots for one in timelines]
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
    timeline: Order,
    state_G: Sequence[Any],
) -> Tensor:
    weights = zip(*(recurrence.weights for recurrence in recurrences), strict=True)
    stacked = [torch.stack(tensors) for tensors in weights]
    name, options = recurrences[0].operator, recurrences[0].options
    if isinstance(timeline, Tensor):
        both = zip(recurrences, inputs_G, strict=True)
        initial = torch.stack([one.init_state(slots[:1, 0])[0] for one, slots in both])
        state = None if state_G[0] is None else torch.stack(tuple(state_G))
        inputs = torch.stack(tuple(inputs_G))
        return memories(name, list(options) or None, timeline, inputs, initial, state, stacked)[0]
    order, inputs = timeline.order, timeline.packed(inputs_G)
    like = inputs[: len(order.block_S)]
    first = [
        first_state(order, recurrence.init_state(like), state)
        for recurrence, state in zip(recurrences, state_G, strict=True)
    ]
    before = order.rows_T, *options, timeline.place_W
    return timeline.unpacked(walked(name, *before, inputs, torch.stack(first), *stacked))
