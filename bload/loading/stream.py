"""Blocks from a stream: sequences whose lengths are known only when they arrive.

stream -> shard of a rank and worker -> Window -> BlockSample -> Batch
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, get_args

import numpy as np
from torch.utils import _pytree as pytree
from torch.utils.data import IterableDataset, get_worker_info

from bload.batch.batch import Batch, BlockSample, TargetsPer, collate_blocks, copy_pad
from bload.batch.sending import check_sendable
from bload.batch.trees import empty_like
from bload.errors import InputError, check_choice, check_whole
from bload.loading.dataset import take_values
from bload.loading.window import Waiting, Window
from bload.packing.plan import Block, filler_block


class StreamBlocks(IterableDataset[Any]):
    """Blocks of one rank that are packed while the stream is read; `StreamLoader` reads them.

    Each pair of rank and worker has a shard and a window; sequence i is in shard ``i % shards``.

    Args:
        sequences: an iterable that can be read again, such as a list of file names; every shard
            iterates over all of it and keeps its part. Or a function of ``(shard, shards)`` that
            returns an iterable over that part.
        t_max: slots in a block; a longer sequence is an error.
        decode: function from an item to a whole sequence, ``inputs`` or ``inputs, targets``, of the
            kinds that `SequenceSource.read` returns. It runs in the worker, on the items of its
            shard only. None if the items are such sequences.
        batch_slots: slots in a batch, rounded down to whole blocks; None takes one block.
        window: largest total of frames waiting in the memory of each worker, in blocks.
        skip: exceptions of `decode` alone on which an item is left out, such as ``OSError``.
        sharded: required for an ``IterableDataset`` of torch or Hugging Face with several workers
            or ranks: True if it divides itself, so that the items that a worker of a rank sees are
            its own; False if every worker sees all items. Other iterables yield all items.
        targets_per: ``frame``, or ``sequence`` for one target per sequence.
        pad: padding values, see `BlockLoader`.
        rank: rank of this process, with `world_size`; see `BlockSampler`.

    Raises:
        InputError: at once, for invalid options; on reading, for a sequence that is empty, longer
            than a block, or of another kind than the shard's first.
    """

    def __init__(
        self,
        sequences: Iterable[Any] | Callable[[int, int], Iterable[Any]],
        t_max: int,
        *,
        decode: Callable[[Any], Any] | None = None,
        batch_slots: int | None = None,
        window: int = 16,
        skip: type[Exception] | Sequence[type[Exception]] = (),
        sharded: bool | None = None,
        targets_per: TargetsPer = "frame",
        pad: Mapping[str, float] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if isinstance(sequences, Iterator):
            raise InputError(
                f"sequences is a {type(sequences).__name__}, which can be read only once; give an "
                "iterable that begins anew, or a function of (shard, shards) that returns one"
            )
        self.t_max, self.window = check_whole("t_max", t_max, 1), check_whole("window", window, 1)
        check_choice("targets_per", targets_per, get_args(TargetsPer))
        check_choice("sharded", sharded, (True, False, None))
        self.skip = (skip,) if isinstance(skip, type) else tuple(skip)
        self.sequences, self.decode, self.sharded = sequences, decode, sharded
        slots = check_whole("batch_slots", batch_slots or 0, 0)
        self.blocks_per_batch = max(1, slots // self.t_max)
        """Blocks in a batch; a short last batch gets fillers up to min(this, `window`, 1,024)."""
        self.targets_per: TargetsPer = targets_per
        self.pad = copy_pad(pad)
        self.rank: Any = rank
        self.world_size: Any = world_size
        self.positions: list[dict[str, Any]] = []
        """Start position of each worker, from the loader."""
        self.next_worker = 0
        """The worker whose batch comes first."""

    def __iter__(self) -> Iterator[tuple[Batch | None, dict[str, Any], Any, str]]:
        """Yield batch, position of the worker as plain values, template, and fault.

        Batch: None at the end, or where a worker leaves out its first turn. Template: None or, with
        its first batch, inputs and targets without frames. Fault: "", or the last `InputError`.
        """
        info = get_worker_info()
        workers, worker = (info.num_workers, info.id) if info else (1, 0)
        if not self.positions:
            raise InputError("StreamBlocks are read by a StreamLoader, not by a DataLoader")
        begin = self.positions[worker]
        shard = _Shard(self, worker * self.world_size + self.rank, workers * self.world_size, begin)
        if worker < self.next_worker:
            yield None, begin, None, ""
        blocks, template = shard.blocks(), None
        try:
            while samples := list(islice(blocks, self.blocks_per_batch)):
                is_first, template = template is None, samples[0].template
                samples += self.fillers(template, len(samples))
                batch = collate_blocks(samples, self.pad)
                yield batch, shard.position(), template if is_first else None, ""
            yield None, shard.position(), None, ""
        except InputError as error:  # raised in a worker, it would contain the traceback
            yield None, shard.position(), None, str(error)
        except Exception as error:
            check_sendable(error)
            raise

    def fillers(self, template: tuple[Any, Any], blocks: int = 0) -> list[BlockSample]:
        """Return the empty blocks of a batch that has some, for values like the template's."""
        filler = BlockSample(filler_block(self.t_max), (), (), template, self.targets_per)
        return [filler] * (min(self.blocks_per_batch, self.window, 1024) - blocks)


class _Shard:
    """Sequences of one rank and worker on their way into blocks."""

    def __init__(
        self, stream: StreamBlocks, shard: int, shards: int, begin: dict[str, Any]
    ) -> None:
        self.stream, self.shard, self.shards = stream, shard, shards
        self.decode = stream.decode or (lambda item: item)
        self.window = Window(stream.t_max, stream.window)
        self.worker: int = begin["worker"]
        for number, frames in begin["waiting"]:
            self.window.put(number, frames)
        self.window.passed_over = begin["passed"]
        self.skipped: int = begin["skipped"]
        self.final_blocks: list[Waiting] | None = begin["last"]
        """Blocks left after the end of the stream; None before it."""
        self.items_read: int = begin["read"]
        self.pending: dict[int, Any] = {}
        """Frames and targets of the sequences that are not yet in a block."""
        self.template: tuple[Any, Any] = (None, None)
        """Inputs and targets of the first sequence without frames."""

    def position(self) -> dict[str, Any]:
        """Return the numbers of sequences read and skipped, and those not yet in a block."""
        return {
            "worker": self.worker,
            "read": self.items_read,
            "waiting": [*self.window.waiting],
            "passed": self.window.passed_over,
            "skipped": self.skipped,
            "last": self.final_blocks,
        }

    def blocks(self) -> Iterator[BlockSample]:
        items = self._items()
        self._replay(items)
        while self.final_blocks is None:
            if self.window.is_over:
                yield self._sample(self.window.take_block())
            elif (entry := next(items, None)) is not None:
                number, item = entry
                self.items_read += 1
                try:
                    sequence = self.decode(item)
                except self.stream.skip:
                    self.skipped += 1
                else:
                    self.window.put(number, self._hold(number, sequence))
            else:
                self.final_blocks = self.window.take_all()
        while self.final_blocks:
            block, *self.final_blocks = self.final_blocks
            yield self._sample(block)

    def _items(self) -> Iterator[tuple[int, Any]]:
        """Iterate over the shard's items, each with the number of its sequence."""
        items: Any = self.stream.sequences
        if callable(items):
            items = items(self.shard, self.shards)
            if isinstance(items, IterableDataset) and self.shards > 1:
                raise InputError(
                    f"the function of (shard, shards) returned {type(items).__name__}, which may "
                    "divide itself once more; return a list or a generator, or give the data set "
                    "itself with sharded=..."
                )
        elif not self.stream.sharded:
            items = islice(items, self.shard, None, self.shards)
        return ((nth * self.shards + self.shard, item) for nth, item in enumerate(items))

    def _replay(self, items: Iterator[tuple[int, Any]]) -> None:
        """Skip the sequences before the position, but hold those that are not yet in a block."""
        if self.final_blocks == []:
            return
        missing = dict(chain(self.window.waiting, *(self.final_blocks or [])))
        reread = 0
        for number, item in islice(items, self.items_read):
            if number in missing:
                try:
                    sequence = self.decode(item)
                except self.stream.skip as error:
                    raise InputError(f"sequence {number} could be read before: {error}") from error
                if self._hold(number, sequence) != missing.pop(number):
                    break
            reread += 1
        if missing or reread < self.items_read:
            raise InputError(
                "the stream is not the one of the saved position; give the same sequences in the "
                "same order, if shuffled with the seed and the epoch of then"
            )

    def _hold(self, number: int, sequence: Any) -> int:
        """Keep a copy of a decoded sequence until its block leaves; return its frames."""
        t_max, opening = self.stream.t_max, f"sequence {number} of the stream"
        has = "has" if self.stream.decode else "(no decode= is given) has"
        held = take_values(sequence, self.stream.targets_per, f"{opening} {has}", self.template)
        frames = len(pytree.tree_leaves(held[0])[0])
        if not 1 <= frames <= t_max:
            advice = "leave it out of the stream"
            advice += f", or raise t_max to {frames}" if frames else ""
            raise InputError(f"{opening} has {frames} frames but t_max is {t_max}; {advice}")
        if self.template[0] is None:
            self.template = empty_like(held[0]), empty_like(held[1])
        self.pending[number] = held
        return frames

    def _sample(self, segments: Waiting) -> BlockSample:
        inputs, targets = zip(*(self.pending.pop(number) for number, _ in segments), strict=True)
        number_S, length_S = np.array(segments, dtype=np.int64).T.copy()
        block = Block(segments[0][0], self.stream.t_max, number_S, 0 * number_S, length_S)
        return BlockSample(block, inputs, targets, self.template, self.stream.targets_per)
