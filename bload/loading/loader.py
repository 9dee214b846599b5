"""Loader of batches from a source of sequences, with exact resume."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from bload.batch.batch import Batch, collate_blocks, copy_pad
from bload.errors import InputError, any_of, check_choice, check_whole
from bload.loading.dataset import BlockDataset, SequenceSource
from bload.loading.sampler import BlockSampler
from bload.packing.cost import COST_PER_SLOT, Cost
from bload.packing.packers import check_packer_options
from bload.packing.plan import Block
from bload.schedule.balance import Last
from bload.schedule.schedule import EpochAccount

FOR_DATA_LOADER = {"prefetch_factor", "pin_memory", "multiprocessing_context", "timeout"}
FOR_DATA_LOADER |= {"worker_init_fn"}
"""Options of a loader that torch's DataLoader gets."""


class BlockLoader:
    """Yields batches of packed blocks for one rank; every rank takes the same number of steps.

        loader = BlockLoader(source)
        for epoch in range(epochs):
            loader.set_epoch(epoch)
            for batch in loader: ...

    With ``micro_batches`` above 1 or ``balance="uneven"``, an optimiser step takes several batches.
    It comes after a batch with `ends_step` True; `by_step` yields the batches of a step together.

    Args:
        source: object with ``lengths`` and ``read(sequence, first, length)``, see
            `bload.SequenceSource` and `bload.from_dataset`.
        packer: a key of `bload.PACKERS`. ``bload_exact`` pads least. ``bload`` draws at random, the
            paper's rule as quoted: to compare with the paper, or where packing must be instant.
        t_max: slots in a block; None takes the longest length, `sampling` and `mix` the mean.
        batch_slots: slots in a batch, rounded down to whole blocks, at least one; None takes one.
        micro_batches: batches per rank and optimiser step, for gradient accumulation.
        seed: random seed; the only source of randomness, together with the epoch.
        last: ``fill`` completes the last step with empty blocks, ``drop`` leaves it out.
        pad: padding values by key of the source's dict, or by ``inputs`` and ``targets``; else 0,
            or -100 for integer targets, which `torch.nn.functional.cross_entropy` ignores.
        num_workers: number of worker processes.
        names: names of the sequences, for error messages; ranks must have the same.
        block_sizes: block sizes, `t_max` the largest, or the number of sizes to choose.
        multiple_of: every segment takes a multiple of so many slots, for context parallelism, FP8,
            or encoders that subsample time: padding follows its frames, inside the row. `t_max` has
            to be a multiple too; its default is rounded. It cannot cut long sequences.
        balance: how blocks get to steps and ranks, a key of `bload.schedule.balance.BALANCES`. With
            ``uneven``, batches differ by rank: no count in `mean_loss`, no collective in forward.
        cost: cost of a block, for `balance`.
        chunk: number of sequences that are planned at a time, for data sets of any size: the number
            of steps is then known when the last chunk is packed. None plans a whole epoch.
        elastic: load positions saved with another number of blocks per step, as on fewer ranks. The
            epoch still trains every frame once; its steps differ from those of an undisturbed run.
        rank: rank of this process; None takes that in the process group, or 0 without one.
        world_size: number of ranks; None takes the size of the process group, or 1 without one.
        process_group: ranks that share the data, as ``mesh["dp"].get_group()``; None: the default.
        options: the packer's own: `long`, what is done with sequences above `t_max` (``error``,
            ``split``, ``carry``, ``truncate``), and others, see ``help(bload.packing.sampling)``
            and so on; for torch's DataLoader `prefetch_factor`, `pin_memory`, `timeout`,
            `worker_init_fn`, `multiprocessing_context`.

    Raises:
        InputError: as in `bload.BlockSampler`; or `read` returned a wrong number or kind of frames.
    """

    def __init__(
        self,
        source: SequenceSource,
        packer: str = "bload_exact",
        *,
        t_max: int | None = None,
        batch_slots: int | None = None,
        micro_batches: int = 1,
        seed: int = 0,
        last: Last = "fill",
        pad: Mapping[str, float] | None = None,
        num_workers: int = 0,
        names: Sequence[str] | None = None,
        block_sizes: int | Sequence[int] = 1,
        multiple_of: int = 1,
        balance: str = "none",
        cost: Cost = COST_PER_SLOT,
        chunk: int | None = None,
        elastic: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        process_group: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        if isinstance(source, type) or not (hasattr(source, "lengths") and hasattr(source, "read")):
            raise InputError(
                f"source is {source!r:.60}; give an object with lengths and "
                "read(sequence, first, length), or from_dataset(it, ...)"
            )
        for_data_loader = {key: options.pop(key) for key in FOR_DATA_LOADER & options.keys()}
        check_packer_options(packer, options, BlockLoader)
        options |= {"t_max": t_max, "batch_slots": batch_slots, "micro_batches": micro_batches}
        options |= {"seed": seed, "last": last, "names": names, "block_sizes": block_sizes}
        options |= {"multiple_of": multiple_of, "balance": balance, "cost": cost, "chunk": chunk}
        options |= {"elastic": elastic, "rank": rank, "world_size": world_size}
        self.sampler = BlockSampler(source.lengths, packer, process_group=process_group, **options)
        self._dataset = BlockDataset(source, self.sampler.planner.names)
        self._pad = copy_pad(pad)
        self.torch_loader = SendableDataLoader(
            self._dataset,
            batch_sampler=_Batches(self.sampler),
            collate_fn=partial(collate_blocks, pad=self._pad),
            num_workers=num_workers,
            persistent_workers=bool(num_workers),
            **for_data_loader,
        )

    @property
    def step(self) -> int:
        """Steps of the current epoch whose batches have all been yielded."""
        return self.sampler.step

    @property
    def batch_sampler(self) -> BlockSampler:
        """The sampler, where Lightning looks for it."""
        return self.sampler

    @property
    def epoch(self) -> int:
        """Current epoch, or the epoch of a loaded position."""
        return self.sampler.epoch

    @property
    def account(self) -> EpochAccount:
        """Counts of the current epoch, over all ranks."""
        return self.sampler.account

    @property
    def steps(self) -> int | None:
        """Steps of the current epoch, the same on every rank; None before the last `chunk`."""
        return self.sampler.steps

    def __len__(self) -> int:
        """Batches of this rank in the current epoch; more than `steps` if a step takes several."""
        return len(self.sampler)

    def __repr__(self) -> str:
        return repr(self.sampler)

    def __getitem__(self, index: Any) -> NoReturn:
        raise InputError("a BlockLoader yields batches itself; leave the DataLoader around it out")

    def __iter__(self) -> Iterator[Batch]:
        # Workers prefetch, so the sampler runs ahead; the steps yielded are counted here.
        sampler = self.sampler
        generation = sampler.begin_pass(next_epoch=True)
        step, steps = sampler.step, sampler.steps
        try:
            # Workers first: Python 3.11 may hang in a fork while gloo's threads end a collective.
            batches = iter(self.torch_loader)
            sampler.compare(pad=self._pad, targets_per=self._dataset.targets_per)
            while step != steps:
                sampler.check_pass(generation)
                if (batch := next(batches, None)) is None:
                    break  # the end, which was unknown before the last chunk
                step, steps = step + batch.ends_step, sampler.steps
                sampler.step = step  # done once yielded: take the step before you save
                yield batch
        except InputError as error:
            # A worker's error contains its traceback; the message is the last line.
            raise InputError(str(error).rstrip().rsplit("errors.InputError: ", 1)[-1]) from None

    def by_step(self) -> Iterator[list[Batch]]:
        """Yield the batches of each step as one list."""
        step: list[Batch] = []
        for batch in self:
            step.append(batch)
            if batch.ends_step:
                yield step
                step = []

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, or to a position in it that was loaded just before.

        Without a call, a finished pass is followed by the next epoch, a broken one by itself again.
        """
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch yielded, for any number of workers.

        With ``long="carry"``, save the states of this rank's rows beside it.
        """
        return self.sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the last batch yielded before `state` was saved; see `BlockSampler`."""
        self.sampler.load_state_dict(state)


class SendableDataLoader(DataLoader[Any]):
    """A DataLoader that can be pickled to another process, even after a pass.

    Its passes leave the random state of training alone: it seeds workers by its own generator.
    """

    def __init__(self, dataset: Any, **options: Any) -> None:
        workers = check_whole("num_workers", options.get("num_workers", 0), 0)
        if options.get("timeout") and not workers:
            raise InputError("timeout is for data workers; set num_workers, or leave it out")
        if options.get("prefetch_factor") is not None:
            check_whole("prefetch_factor", options["prefetch_factor"], 1)
        check_choice("pin_memory", options.get("pin_memory", False), (True, False))
        try:
            super().__init__(dataset, **options)
        except (TypeError, ValueError) as error:
            given = any_of(sorted(FOR_DATA_LOADER & options.keys()))
            raise InputError(f"torch's DataLoader refuses {given}: {error}") from error

    def __iter__(self) -> Any:
        begun: Any = self._iterator
        if begun is not None and begun._workers[0]._parent_pid != os.getpid():
            begun._shutdown, self._iterator = True, None  # left to the process before a fork
        self.generator = self.generator or torch.Generator().manual_seed(torch.initial_seed())
        with nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"):
            return super().__iter__()  # workers inherit a mode, and are slow under it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "generator": None, "_iterator": None}


class _Batches:
    def __init__(self, sampler: BlockSampler) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[list[Block]]:
        return self.sampler.batches()
