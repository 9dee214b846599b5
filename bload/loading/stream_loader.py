"""Loader of batches from a stream, with equal steps on all ranks and exact resume."""

import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from bload.batch.batch import Batch, collate_blocks
from bload.batch.step import Step, has_group
from bload.batch.trees import compare_kinds
from bload.errors import InputError, differences
from bload.loading.loader import FOR_DATA_LOADER, SendableDataLoader
from bload.loading.planner import as_json_types, check_position, with_checksum
from bload.loading.ranks import compare_ranks, resolve_rank
from bload.loading.sampler import ENDED
from bload.loading.stream import StreamBlocks


class StreamLoader:
    """Yields batches packed from a stream; every rank takes the same number of steps.

        loader = StreamLoader(StreamBlocks(file_names, 94, decode=read_video), num_workers=2)
        for batch in loader:
            ...

    No rank knows how much data the others have left. So before every step the ranks add up their
    frames, in one all-reduce of a small tensor on the host. A rank without data gets a batch of
    padding; all ranks end when none has data. The sum is `Batch.frames_in_step`, so the loss needs
    no other all-reduce. If the group has no CPU backend, the tensor goes through the GPU, and the
    host synchronises with it once per step.

    Args:
        process_group: group of the ranks that share the data; None takes the default group. Without
            a group, each rank ends with its own part.
        options: `num_workers` and the others that `BlockLoader` passes to
            `torch.utils.data.DataLoader`; the workers are started anew for each iteration.

    Raises:
        InputError: a sequence that `StreamBlocks` refuses, an empty stream, ranks with different
            options or positions, or ranks or workers with different kinds of data.
    """

    def __init__(
        self,
        stream: StreamBlocks,
        *,
        process_group: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(stream, StreamBlocks):
            kind = type(stream).__name__
            raise InputError(f"the stream is a {kind}; give StreamBlocks(sequences, t_max)")
        for key in options.keys() - FOR_DATA_LOADER - {"num_workers"}:
            raise InputError(
                f"{key!r} is no argument of a StreamLoader; give it num_workers, "
                f"{', '.join(sorted(FOR_DATA_LOADER))}, and what makes blocks to StreamBlocks"
            )
        stream.rank, stream.world_size = resolve_rank(stream.rank, stream.world_size, process_group)
        self.stream, self.process_group = stream, process_group
        self.torch_loader = SendableDataLoader(stream, batch_size=None, collate_fn=tuple, **options)
        self.skipped = 0
        """Items that `skip` left out so far, over all ranks; rank 0 prints how many at the end."""
        self._workers = max(self.torch_loader.num_workers, 1)
        names = {base.__name__ for base in type(stream.sequences).__mro__}
        divides = "IterableDataset" in names  # of torch or Hugging Face
        if divides and stream.sharded is None and self._workers * stream.world_size > 1:
            raise InputError(
                f"the {type(stream.sequences).__name__} may divide itself among workers and ranks; "
                "give sharded=True if the items that a worker of a rank sees are its own, or "
                "sharded=False if it sees all, and the loader is to divide them; if it divides "
                "itself among workers alone, give a function of (shard, shards) instead"
            )
        self._template: tuple[Any, Any] | None = None
        """Frames and targets of this rank's first batch without frames."""
        self._state = self._begin = self._beginning()
        """After the last batch, and where the next iteration begins: loaded, or the beginning."""
        self._generation = 0

    def __repr__(self) -> str:
        shown = self._definition() | {"workers": self.torch_loader.num_workers, "step": self.step}
        return f"StreamLoader({', '.join(f'{key} {value}' for key, value in shown.items())})"

    def _beginning(self) -> dict[str, Any]:
        positions: list[dict[str, Any]] = [
            {"worker": worker, "read": 0, "passed": 0, "skipped": 0, "waiting": [], "last": None}
            for worker in range(self._workers)
        ]
        return {"step": 0, "next_worker": 0, "positions": positions}

    @property
    def step(self) -> int:
        """Batches yielded since the beginning of the stream."""
        return int(self._state["step"])

    def __iter__(self) -> Iterator[Batch]:
        self._generation = generation = self._generation + 1
        self._state = state = deepcopy(self._begin)
        positions = state["positions"]
        self._skips = [position["skipped"] for position in positions]
        self.stream.positions, self.stream.next_worker = [*positions], state["next_worker"]
        batches = iter(self.torch_loader)
        batch, position, fault = self._next(batches)
        filler = self._agree_on_filler(fault)
        while frames := self._frames_of_step(batch, fault):
            if generation != self._generation:
                raise InputError(ENDED)
            if position:
                positions[position["worker"]] = position
                state["next_worker"] = (position["worker"] + 1) % self._workers
            state["step"] += 1
            ranks = self.stream.world_size if has_group() else 1
            yield replace(batch or filler, step=Step(0, frames, world_size=ranks))
            batch, position, fault = self._next(batches)
        self._begin = self._beginning()
        if self.skipped and (self.stream.rank == 0 or not has_group()):
            print(f"{self.skipped} of the stream's items were skipped", file=sys.stderr)

    def _next(self, batches: Iterator[Any]) -> tuple[Any, Any, str]:
        """Return the next batch with its position, or None at the end, and an error or ""."""
        for batch, position, template, fault in batches:
            worker = position["worker"]
            self._skips[worker] = position["skipped"]
            if template is not None:
                self._template = self._template or template
                fault = compare_kinds(f"worker {worker}", template, self._template)
            if fault:
                return None, None, fault
            if batch is not None:
                return batch, position, ""
        return None, None, ""

    def _frames_of_step(self, batch: Batch | None, fault: str) -> int:
        """Return the frames of a step over all ranks; 0 at the end of the stream.

        Raises:
            InputError: on every rank, if any rank refused a sequence.
        """
        frames = int(batch.segments.length_S.sum()) if batch else 0
        self.skipped = sum(self._skips)
        if has_group():
            on_cpu = "cpu:" in dist.get_backend_config(self.process_group)
            counts = [frames, bool(fault), self.stream.rank if fault else 0, self.skipped]
            total = torch.tensor(counts, device="cpu" if on_cpu else "cuda")
            dist.all_reduce(total, group=self.process_group)
            frames, faults, rank, self.skipped = total.tolist()
            if faults and not fault:
                ranks = f"rank {rank}" if faults == 1 else f"{faults} ranks"
                raise InputError(f"{ranks} refused a sequence of the stream; see the error there")
        if fault:
            raise InputError(fault)
        return frames

    def _agree_on_filler(self, fault: str) -> Any:
        """Compare the ranks; return a batch of padding of the kinds that some rank has.

        Return None if the saved position was the end of the stream.
        """
        stream, settings = self.stream, {"step": self.step, **self._definition()}
        settings |= {"pad": stream.pad, "skip": str(stream.skip)}
        compare_ranks(settings, stream.rank, stream.world_size, self.process_group)
        gathered = [(self._template, fault)]
        if has_group():
            gathered *= stream.world_size
            dist.all_gather_object(gathered, (self._template, fault), self.process_group)
        templates = [template for template, _ in gathered if template is not None]
        for template in templates:
            if difference := compare_kinds("a rank", template, templates[0]):
                raise InputError(difference)
        if not templates and self.step == 0 and not any(fault for _, fault in gathered):
            skipped = sum(self._skips)
            raise InputError(f"the stream has no sequence to pack; {skipped} were skipped")
        if not templates:
            return None
        return collate_blocks(stream.fillers(templates[0]), stream.pad)

    def _definition(self) -> dict[str, Any]:
        """Return the settings that all ranks share and a position depends on."""
        stream = self.stream
        return {
            "t_max": stream.t_max,
            "blocks per batch": stream.blocks_per_batch,
            "window": stream.window,
            "ranks": stream.world_size,
            "workers": self._workers,
            "targets_per": stream.targets_per,
            "sharded": stream.sharded,
        }

    def set_epoch(self, epoch: int) -> None:
        """Call `set_epoch` of the sequences if they have it; the position stays as it is."""
        if hasattr(self.stream.sequences, "set_epoch"):
            self.stream.sequences.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this rank after the last batch yielded, as plain values.

        It holds numbers of waiting sequences, not their frames. Each rank must save its own.
        """
        definition = as_json_types({"rank": self.stream.rank, **self._definition()})
        # copied, since torch.distributed.checkpoint loads into it
        return with_checksum({**deepcopy(self._state), "stream": definition})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the last batch yielded before `state` was saved by this rank.

        The stream must yield the same sequences in the same order. Those before the position are
        skipped; only those that were waiting are decoded again.

        Raises:
            InputError: the state belongs to another rank or other options.
        """
        check_position(state, "stream", "StreamLoader")
        definition = {"rank": self.stream.rank, **self._definition()}
        if changes := differences(state["stream"], definition):
            raise InputError(
                f"the saved position is of another loader: {changes}; restore these settings, and "
                "give each rank its own"
            )
        self._state = self._begin = deepcopy({key: state[key] for key in self._state})
        self._generation += 1
