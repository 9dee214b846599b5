"""Loader of batches from a stream, with equal steps on all ranks and exact resume."""

import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from bload.batch.batch import Batch, BlockSample, TargetsPer, collate_blocks
from bload.batch.step import Step
from bload.batch.trees import kind, none_of, on_tensors
from bload.errors import InputError, differences
from bload.loading.ranks import check_place, difference_of_ranks, find_place, has_group
from bload.loading.sampler import plain
from bload.loading.stream import BEGINNING, Sequences, Skip, StreamBlocks
from bload.packing.plan import filler_block


class StreamLoader:
    """Yields batches packed from a stream; every rank takes the same number of steps.

        loader = StreamLoader(file_names, t_max=94, decode=read_video, num_workers=2)
        for batch in loader:
            ...

    No rank knows how much data the others have left. So before every step the ranks add up their
    frames, in one all-reduce of a small tensor on the host. A rank without data gets a batch of
    padding; all ranks end when none has data. The sum is `Batch.frames_in_step`, so the loss needs
    no other all-reduce. If the group has no CPU backend, the tensor goes through the GPU, and the
    host waits for it once per step.

    Args:
        sequences: an iterable that can be read again, such as a list of file names; every shard
            iterates over all of it and keeps its part. Or a function of ``(shard, shards)`` that
            returns an iterable over that part.
        t_max: slots in a block; a longer sequence is an error.
        decode: function from an item to a whole sequence, ``frames`` or ``frames, targets``, of the
            kinds that `SequenceSource.read` returns. It runs in the worker, on the items of its
            shard only. None if the items are such sequences.
        batch_slots: slots in a batch, rounded down to whole blocks; None takes one block.
        window: largest total of frames waiting in the memory of each worker, in blocks.
        skip: exceptions of `decode` on which an item is left out, such as ``OSError``. `skipped`
            counts these items, and rank 0 prints their number at the end of the stream. What the
            loader itself refuses stays an error.
        sharded: required for an ``IterableDataset`` of torch or Hugging Face with several workers
            or ranks: True if it divides itself, so that the items that a worker of a rank sees are
            its own; False if every worker sees all items. Other iterables are taken to yield all
            items, unless it is True.
        targets_per: ``frame``, or ``sequence`` for one target per sequence.
        pad: padding values, see `BlockLoader`.
        rank: rank of this process; None takes it from the process group, or 0 without a group.
        world_size: number of ranks; None takes it from the process group, or 1 without a group.
        process_group: group of the ranks that share the data; None takes the default group. Without
            a group, each rank ends with its own part.
        num_workers: number of worker processes, started anew for each iteration; this and the
            arguments after it are those of `torch.utils.data.DataLoader`.

    Raises:
        InputError: invalid options, a sequence that `StreamBlocks` refuses, an empty stream, ranks
            with different options or positions, or ranks or workers with different kinds of data.
    """

    def __init__(
        self,
        sequences: Sequences,
        t_max: int,
        *,
        decode: Callable[[Any], Any] | None = None,
        batch_slots: int | None = None,
        window: int = 16,
        skip: Skip = (),
        sharded: bool | None = None,
        targets_per: TargetsPer = "frame",
        pad: Mapping[str, float] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        process_group: dist.ProcessGroup | None = None,
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        pin_memory: bool = False,
        multiprocessing_context: Any = None,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
    ) -> None:
        rank, world_size = find_place(rank, world_size, process_group)
        self.process_group = process_group
        self.stream = StreamBlocks(
            sequences,
            t_max,
            decode=decode,
            batch_slots=batch_slots,
            window=window,
            skip=skip,
            sharded=sharded,
            targets_per=targets_per,
            pad=pad,
            rank=rank,
            world_size=world_size,
        )
        self.data = DataLoader(
            _WithPositions(self.stream),
            batch_size=None,
            collate_fn=_unchanged,
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            pin_memory=pin_memory,
            multiprocessing_context=multiprocessing_context,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
        )
        self.step = 0
        """Batches yielded since the beginning of the stream."""
        self.skipped = 0
        """Items left out so far, over all ranks; see `skip`."""
        self._workers = max(num_workers, 1)
        self.stream.check_shards(self._workers)
        self._kinds: tuple[str, str] | None = None
        self._positions: list[dict[str, Any]] = [BEGINNING] * self._workers
        self._turn = 0
        self._begin = self.step, self._turn, self._positions
        """Position at which the next iteration begins: loaded, or the beginning of the stream."""
        self._iterations = 0

    def __iter__(self) -> Iterator[Batch]:
        self._iterations = mine = self._iterations + 1
        self.step, self._turn, self._positions = *self._begin[:2], [*self._begin[2]]
        self._skips = [position["skipped"] for position in self._positions]
        self.stream.positions, self.stream.turn = [*self._positions], self._turn
        batches = iter(self.data)
        found = self._next(batches)
        filler = self._agreed_filler(found)
        while frames := self._frames_of_step(found):
            if mine != self._iterations:
                raise InputError(
                    "this iterator ended when another of the same loader began, or when "
                    "load_state_dict moved it; begin a new one, or make a loader for each"
                )
            batch, position = found or (filler, None)
            if position:
                self._positions[position["worker"]] = position
                self._turn = (position["worker"] + 1) % self._workers
            self.step += 1
            ranks = self.stream.world_size if has_group() else 1
            yield replace(batch, step=Step(0, frames, ranks=ranks))
            found = self._next(batches)
        self._begin = 0, 0, [BEGINNING] * self._workers
        if self.skipped and (self.stream.rank == 0 or not has_group()):
            print(f"{self.skipped} of the stream's items were skipped", file=sys.stderr)

    def _next(self, batches: Iterator[Any]) -> Any:
        """Return the next batch with its position, the message of an error, or None at the end."""
        for found in batches:
            if isinstance(found, str):
                return found
            batch, position = found
            self._skips[position["worker"]] = position["skipped"]
            if batch is None:
                continue
            inputs, targets = _nothing(batch, self.stream.targets_per).like
            kinds = kind(inputs), kind(targets)
            self._kinds = self._kinds or kinds
            if kinds != self._kinds:
                return _different(f"worker {position['worker']}", kinds, "another", self._kinds)
            return found
        return None

    def _frames_of_step(self, found: Any) -> int:
        """Return the frames of a step over all ranks; 0 at the end of the stream.

        Raises:
            InputError: on every rank, if any rank refused a sequence.
        """
        refused = found if isinstance(found, str) else ""
        frames = 0 if refused or not found else int(found[0].segments.length_S.sum())
        if has_group():
            on_cpu = "cpu:" in dist.get_backend_config(self.process_group)
            mine = [frames, bool(refused), self.stream.rank * bool(refused), sum(self._skips)]
            total = torch.tensor(mine, device="cpu" if on_cpu else "cuda")
            dist.all_reduce(total, group=self.process_group)
            frames, many, rank, self.skipped = total.tolist()
            if many and not refused:
                who = f"rank {rank}" if many == 1 else f"{many} ranks"
                raise InputError(f"{who} refused a sequence of the stream; see the error there")
        else:
            self.skipped = sum(self._skips)
        if refused:
            raise InputError(refused)
        return frames

    def _agreed_filler(self, found: Any) -> Any:
        """Compare the ranks; return a batch of padding of the kinds that some rank has.

        Return None if the saved position was the end of the stream.
        """
        batch = found[0] if isinstance(found, tuple) else None
        nothing = None if batch is None else _nothing(batch, self.stream.targets_per)
        more = {"step": self.step, "pad": self.stream.pad, "skip": str(self.stream.skip)}
        mine = {**more, **self._definition()}, nothing
        ranks: list[Any] = [mine]
        if has_group():
            check_place(self.stream.rank, self.stream.world_size, self.process_group)
            ranks *= self.stream.world_size
            dist.all_gather_object(ranks, mine, self.process_group)
        if fault := difference_of_ranks([settings for settings, _ in ranks]):
            raise InputError(
                f"ranks read the stream differently: {fault}; give every rank the same options, "
                "and the position that it saved at the same step"
            )
        samples = [sample for _, sample in ranks if sample is not None]
        kinds = [(kind(sample.like[0]), kind(sample.like[1])) for sample in samples]
        for other in kinds:
            if other != kinds[0]:
                raise InputError(_different("a rank", other, "another", kinds[0]))
        if not samples and self.step == 0 and not isinstance(found, str):
            skipped = sum(self._skips)
            raise InputError(
                f"all {skipped} items of the stream were skipped; see what decode raises"
                if skipped
                else "the stream has no sequence; give at least one"
            )
        return collate_blocks(samples[:1] * self.stream.rows, self.stream.pad) if samples else None

    def _definition(self) -> dict[str, Any]:
        """Return the settings that all ranks share and a position depends on."""
        stream = self.stream
        return {
            "t_max": stream.t_max,
            "blocks per batch": stream.rows,
            "window": stream.window,
            "ranks": stream.world_size,
            "workers": self._workers,
            "targets_per": stream.targets_per,
            "sharded": stream.sharded,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this rank after the last batch yielded, as plain values.

        It holds numbers of waiting sequences, not their frames. Each rank must save its own.
        """
        return {
            "step": self.step,
            "turn": self._turn,
            "positions": [*self._positions],
            "stream": plain({"rank": self.stream.rank, **self._definition()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the last batch yielded before `state` was saved on this rank.

        The stream must yield the same sequences in the same order. Those before the position are
        skipped; only those that were waiting are decoded again.

        Raises:
            InputError: the state belongs to another rank or other options.
        """
        keys = {"step", "turn", "positions", "stream"}
        if not (isinstance(state, dict) and keys <= {*state} and isinstance(state["stream"], dict)):
            raise InputError("this is no state_dict of a StreamLoader")
        definition = {"rank": self.stream.rank, **self._definition()}
        if changes := differences(state["stream"], definition):
            raise InputError(
                f"the saved position is of another loader: {changes}; restore these settings, and "
                "give each rank its own"
            )
        counts = state["step"], state["turn"]
        if (
            not all(type(number) is int and number >= 0 for number in counts)
            or state["turn"] >= self._workers
            or not isinstance(state["positions"], list)
            or len(state["positions"]) != self._workers
            or not all(
                _is_position(position, worker, self.stream.t_max)
                for worker, position in enumerate(state["positions"])
            )
        ):
            raise InputError("the saved position was edited; load it as StreamLoader saved it")
        self.step, self._turn = counts
        self._positions = deepcopy(state["positions"])  # keeps `state` unchanged
        self._begin = self.step, self._turn, self._positions
        self._iterations += 1


class _WithPositions(IterableDataset[Any]):
    """Yields batches with positions, and an `InputError` as its message."""

    def __init__(self, stream: StreamBlocks) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.stream.with_positions()
        except InputError as error:  # raised in a worker, it would contain the traceback
            yield str(error)


def _unchanged(item: Any) -> Any:
    return item


def _is_position(position: Any, worker: int, t_max: int) -> bool:
    """Return True for a position of this worker, as plain values."""
    try:
        pairs = [*position["waiting"], *(p for block in position.get("last", ()) for p in block)]
        ranges = [
            (position["read"], 0, sys.maxsize),
            (position.get("worker", worker), worker, worker),
        ]
        for name in ("passed", "skipped"):
            ranges.append((position[name], 0, position["read"]))
        for number, frames in pairs:
            ranges += [(number, 0, sys.maxsize), (frames, 1, t_max)]
    except (TypeError, KeyError, ValueError, AttributeError):
        return False
    return all(type(value) is int and low <= value <= high for value, low, high in ranges)


def _different(who: str, kinds: tuple[str, str], other: str, usual: tuple[str, str]) -> str:
    return (
        f"{who} has inputs {kinds[0]} and targets {kinds[1]}, {other} has inputs {usual[0]} and "
        f"targets {usual[1]}; give all of one kind"
    )


def _nothing(batch: Batch, targets_per: TargetsPer) -> BlockSample:
    """Return an empty sample of the kinds of a batch."""

    def row(tensor: Tensor) -> Tensor:
        return tensor[0]

    targets = none_of(on_tensors(batch.targets_BT, row))
    if targets_per == "sequence":
        targets = none_of(batch.targets_S)
    elif batch.targets:
        objects = none_of(batch.targets)
        targets = {**(targets or {}), **objects} if isinstance(objects, dict) else objects
    like = none_of(on_tensors(batch.inputs_BT, row)), targets
    return BlockSample(filler_block(batch.valid_BT.shape[1]), (), (), like, targets_per)
