"""Loader of batches from a source of sequences, with exact resume."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from bload.batch.batch import Batch, collate_blocks, copy_pad
from bload.errors import InputError
from bload.loading.chunks import ChunkSampler
from bload.loading.dataset import BlockDataset, SequenceSource
from bload.loading.ranks import compare_ranks
from bload.loading.sampler import BlockSampler
from bload.packing.packers import check_packer_options
from bload.packing.plan import Block, Plan
from bload.schedule.schedule import EpochAccount


class BlockLoader:
    """Yields batches of packed blocks for one rank; every rank takes the same number of steps.

        loader = BlockLoader(source)
        for epoch in range(epochs):
            loader.set_epoch(epoch)
            for batch in loader:
                ...

    With ``micro_batches`` above 1 or ``balance="counts"``, an optimiser step takes several batches.
    It comes after a batch with `ends_step` True; `by_step` yields the batches of a step together.

    Args:
        source: object with ``lengths`` and ``read(sequence, first, length)``, see
            `bload.SequenceSource` and `bload.from_dataset`.
        packer: a key of `PACKERS`; this, `t_max`, `batch_slots`, `rank`, `world_size`, `seed`,
            `process_group`, `micro_batches` and `names` are explained in `bload.BlockSampler`.
        pad: padding values by key of the source's dict, or by ``frames`` and ``targets``; else 0,
            or -100 for integer targets, which `torch.nn.functional.cross_entropy` ignores.
        num_workers: number of worker processes; this, `prefetch_factor`, `pin_memory`,
            `multiprocessing_context`, `timeout` and `worker_init_fn` are passed to
            `torch.utils.data.DataLoader`.
        chunk: number of sequences that are planned at a time, see `bload.ChunkSampler`; None plans
            a whole epoch.
        options: `last`, `even`, `block_sizes`, `balance`, `cost`, `balance_options`, `multiple_of`
            and `elastic` of `bload.BlockSampler`, and options of the packer, such as
            ``long="split"``.

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
        rank: int | None = None,
        world_size: int | None = None,
        seed: int = 0,
        process_group: dist.ProcessGroup | None = None,
        micro_batches: int = 1,
        names: Sequence[str] | None = None,
        pad: Mapping[str, float] | None = None,
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        pin_memory: bool = False,
        multiprocessing_context: Any = None,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        chunk: int | None = None,
        **options: Any,
    ) -> None:
        if isinstance(source, type):
            raise InputError(f"source is the class {source.__name__}; give an instance of it")
        missing = [name for name in ("lengths", "read") if not hasattr(source, name)]
        if missing:
            remedy = "give from_dataset(it, ...)"
            if missing == ["read"]:
                remedy = "add read(sequence, first, length), or " + remedy
            raise InputError(
                f"source is of type {type(source).__name__}, without {missing[0]}; {remedy}"
            )
        check_packer_options(packer, options, BlockSampler, BlockLoader)
        sampler_type: Callable[..., BlockSampler] = BlockSampler
        if chunk is not None:
            sampler_type = partial(ChunkSampler, chunk=chunk)
        self.sampler = sampler_type(
            source.lengths,
            packer,
            t_max=t_max,
            batch_slots=batch_slots,
            rank=rank,
            world_size=world_size,
            seed=seed,
            process_group=process_group,
            micro_batches=micro_batches,
            names=names,
            **options,
        )
        self._dataset = BlockDataset(source, self.sampler.names)
        self._pad = copy_pad(pad)
        self.data = DataLoader(
            self._dataset,
            batch_sampler=_Batches(self.sampler),
            collate_fn=partial(collate_blocks, pad=self._pad),
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            pin_memory=pin_memory,
            multiprocessing_context=multiprocessing_context,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            persistent_workers=num_workers > 0,
            # for seeds of workers; a pass does not change the random state of training
            generator=torch.Generator().manual_seed(torch.initial_seed()),
        )
        self._carried: Any = None
        self._loaded: Any = None
        self._carried_is_current = False
        """True if `carried` was set after the last batch, and this one ends its step."""
        self._ends_step = True

    @property
    def step(self) -> int:
        """Steps of the current epoch whose batches have all been yielded."""
        return self.sampler.step

    @property
    def carried(self) -> Any:
        """State of this rank's rows after the step under ``long="carry"``; saved too."""
        return self._carried

    @carried.setter
    def carried(self, state: Any) -> None:
        self._carried, self._carried_is_current = state, state is not None and self._ends_step

    @property
    def batch_sampler(self) -> BlockSampler:
        """The sampler, where Lightning looks for it."""
        return self.sampler

    @property
    def plan(self) -> Plan:
        """Plan of the current epoch, the same on every rank."""
        return self.sampler.plan

    @property
    def epoch(self) -> int:
        """Current epoch, or the epoch of a loaded position."""
        return self.sampler.epoch

    @property
    def account(self) -> EpochAccount:
        """Cost of the current epoch, over all ranks."""
        return self.sampler.account

    @property
    def steps(self) -> int:
        """Steps of the current epoch, the same on every rank; None before the last `chunk`."""
        return self.sampler.steps

    @property
    def steps_estimate(self) -> int:
        """Steps of the current epoch; with `chunk`, an estimate from a sample of the sequences."""
        return self.sampler.steps_estimate

    @property
    def most_segments(self) -> int:
        """Largest number of segments in a batch of the current epoch, over all ranks."""
        return self.sampler.schedule.most_segments

    def __len__(self) -> int:
        """Batches of this rank in the current epoch; more than `steps` if a step takes several."""
        return len(self.sampler)

    def __repr__(self) -> str:
        return repr(self.sampler)

    def __iter__(self) -> Iterator[Batch]:
        # Workers prefetch, so the sampler runs ahead; the steps yielded are counted here.
        sampler = self.sampler
        generation = sampler.begin_pass(next_epoch=True)
        step, steps = sampler.step, sampler.steps
        self._ends_step, self.carried = True, self._loaded if step else None
        if step == steps and sampler.rank == 0:
            place = f"the end of epoch {sampler.epoch}"
            print(f"the loaded position is {place}, so this pass is empty", file=sys.stderr)
        try:
            # Workers first: Python 3.11 may hang in a fork while gloo's threads end a collective.
            batches, is_first = iter(self.data), True
            sampler.compare(pad=self._pad, targets_per=self._dataset.targets_per)
            while step != steps:
                sampler.check_pass(generation)
                batch = next(batches)
                if is_first:
                    is_first, kinds = False, {"what read returns": batch.step.kinds}
                    compare_ranks(kinds, sampler.rank, sampler.world_size, sampler.process_group)
                step, steps = step + batch.ends_step, sampler.steps
                sampler.step = step  # done once yielded: take the step before you save
                self._carried_is_current, self._ends_step = False, batch.ends_step
                yield batch
        except InputError as error:
            # A worker's error contains its traceback; the message is the last line.
            raise InputError(str(error).rstrip().rsplit("InputError: ", 1)[-1]) from None

    def by_step(self) -> Iterator[list[Batch]]:
        """Yield the batches of each step as one list."""
        step: list[Batch] = []
        for batch in self:
            step.append(batch)
            if batch.ends_step:
                yield step
                step = []

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; see `BlockSampler.set_epoch`.

        Without a call, a pass after a finished one is the next epoch, and one after a pass that was
        broken off begins where that began.
        """
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch yielded, for any number of workers.

        With ``long="carry"`` it includes `carried`, so each rank must save its own.

        Raises:
            InputError: `carried` is missing in the middle of an epoch with ``long="carry"``.
        """
        state = self.sampler.state_dict()
        if self._carries and 0 < self.step < self.steps:
            if not self._carried_is_current:
                raise InputError(
                    "with long=carry, the states of the rows would be lost; save after a batch "
                    "with ends_step, when loader.carried has been set to the state after it, or "
                    "save that state yourself with loader.sampler.state_dict"
                )
            state |= {"carried": self.carried, "rows": self._rows()}
        return state

    @property
    def _carries(self) -> bool:
        return self.sampler.options.get("long") == "carry"

    def _rows(self) -> dict[str, int]:
        """Return what the carried state belongs to."""
        sampler = self.sampler
        rows = sampler.blocks_per_batch * sampler.micro_batches
        return {"rank": sampler.rank, "ranks": sampler.world_size, "rows": rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the last batch yielded before `state` was saved; see `BlockSampler`.

        Raises:
            InputError: as there; or, inside an epoch with ``long="carry"``, the state has no
                carried state of this rank and its rows.
        """
        steps = self.sampler.check_state(state)
        carried, saved = state.get("carried"), state.get("rows")
        inside = 0 < state["step"] < steps
        if self._carries and inside and (carried is None or saved != self._rows()):
            raise InputError(
                f"the saved state has carried rows of {saved}, this loader {self._rows()}; load "
                "what this rank saved, or the position alone by loader.sampler.load_state_dict, "
                "and give the rows their states yourself"
            )
        self.sampler.load_state_dict(state)
        self._ends_step, self.carried = True, carried
        self._loaded = carried


class _Batches:
    """The batches of a pass that the loader has begun."""

    def __init__(self, sampler: BlockSampler) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[list[Block]]:
        return self.sampler.batches()
