"""The whole path from a sequence source to batches, with exact resume."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch.distributed as dist
from torch.utils.data import DataLoader

from bload.batch.batch import Batch, collate_blocks
from bload.errors import InputError
from bload.loading.dataset import BlockDataset, SequenceSource
from bload.loading.sampler import BlockSampler
from bload.packing.cost import Cost
from bload.packing.plan import Plan
from bload.schedule.balance import Last
from bload.schedule.schedule import SLOTS, EpochAccount


class BlockLoader:
    """Yields batches of packed blocks for one rank; every rank takes the same number of steps.

        loader = BlockLoader(source)
        for epoch in range(epochs):
            loader.set_epoch(epoch)
            for batch in loader:
                ...

    With ``micro_batches`` above 1, or ``balance="counts"``, an optimiser step takes several
    batches; it comes after one whose `ends_step` is True. `by_step` yields those of a step
    together.

    Args:
        source: anything with ``lengths`` and ``read(sequence, first, length)``, see
            `bload.SequenceSource` and `bload.from_dataset`.
        packer: a key of `PACKERS`. ``bload_exact`` pads least; ``bload`` draws as the paper does,
            for comparisons with it and where packing has to be instant.
        batch_slots: slots of a batch. A block cannot be cut, so it is rounded down to
            ``batch_slots // t_max`` whole blocks, at least one; None takes one.
        t_max: slots in a block; None takes the packer's natural size, see `natural_t_max`.
        rank: of this process; None takes it from the process group, and without one 0.
        world_size: number of ranks; None takes it from the process group, and without one 1.
        seed: with the epoch, the only source of the plan's randomness.
        last: ``fill`` completes the last step with empty blocks, ``drop`` leaves it out.
        names: of the sequences, for error messages.
        process_group: of the ranks that share the data, where not all do (tensor or pipeline
            parallelism): ``mesh["dp"].get_group()``. None takes the default group.
        block_sizes: sizes of blocks, `t_max` the largest, or how many to choose.
        micro_batches: batches of a rank and optimiser step, whose gradients are accumulated.
        even: let all ranks have as many batches in a step, some of fillers, as `mean_loss` and
            models that communicate in their forward pass ask for.
        balance: a key of `BALANCES`: how the blocks of a step are chosen and shared out.
        cost: of a block, for `balance`.
        balance_options: of `balance`, such as ``{"steps": 16}`` of a window.
        pad: values of padding by key of the source's dict, or ``frames`` and ``targets``; else 0,
            and -100, which `torch.nn.functional.cross_entropy` leaves out, for integer targets.
        num_workers: processes that read; this and the next five are options of
            `torch.utils.data.DataLoader`: `prefetch_factor`, `pin_memory`,
            `multiprocessing_context`, `timeout` and `worker_init_fn`.
        options: the packer's own, such as ``long="split"``, which clears the state at every cut.

    Raises:
        InputError: bad lengths or options, a rank or world size that contradicts the process
            group, ranks with different plans, or a `read` that returns another number or kind of
            frames than it has to.
    """

    def __init__(
        self,
        source: SequenceSource,
        packer: str = "bload_exact",
        *,
        batch_slots: int | None = None,
        t_max: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        seed: int = 0,
        last: Last = "fill",
        names: Sequence[str] | None = None,
        process_group: dist.ProcessGroup | None = None,
        block_sizes: int | Sequence[int] = 1,
        micro_batches: int = 1,
        even: bool = True,
        balance: str = "none",
        cost: Cost = SLOTS,
        balance_options: Mapping[str, Any] | None = None,
        pad: Mapping[str, float] | None = None,
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        pin_memory: bool = False,
        multiprocessing_context: Any = None,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        **options: Any,
    ) -> None:
        for name in ("lengths", "read"):
            if not hasattr(source, name):
                raise InputError(
                    f"a source has lengths and read, and {type(source).__name__} has no {name}; "
                    "bload.from_dataset makes a source of a data set"
                )
        self.sampler = BlockSampler(
            source.lengths,
            packer,
            batch_slots=batch_slots,
            t_max=t_max,
            rank=rank,
            world_size=world_size,
            seed=seed,
            last=last,
            names=names,
            process_group=process_group,
            block_sizes=block_sizes,
            micro_batches=micro_batches,
            even=even,
            balance=balance,
            cost=cost,
            balance_options=balance_options,
            **options,
        )
        self.data = DataLoader(
            BlockDataset(source),
            batch_sampler=self.sampler,
            collate_fn=partial(collate_blocks, pad=pad or {}),
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            pin_memory=pin_memory,
            multiprocessing_context=multiprocessing_context,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            persistent_workers=num_workers > 0,
        )
        self.step = 0
        """Steps of the current epoch whose batches have all been yielded."""
        self.carried: Any = None
        """Under ``long="carry"``, the state of this rank's rows after the step; it is saved too."""
        self._iterations = 0

    @property
    def plan(self) -> Plan:
        """The plan of the current epoch, the same on every rank."""
        return self.sampler.plan

    @property
    def epoch(self) -> int:
        """The current epoch, also that of a position that was loaded."""
        return self.sampler.epoch

    @property
    def account(self) -> EpochAccount:
        """Cost of the current epoch, all ranks together."""
        return self.sampler.account

    @property
    def steps(self) -> int:
        """Steps of the current epoch, the same on every rank."""
        return self.sampler.steps

    @property
    def most_segments(self) -> int:
        """Segments of the batch of the current epoch that has most, on any rank."""
        return self.sampler.schedule.most_segments

    def __len__(self) -> int:
        """Batches of this rank in the current epoch; as many as steps, unless they accumulate."""
        return len(self.sampler)

    def __repr__(self) -> str:
        cost, sampler = self.account, self.sampler
        ranks = _counted(sampler.world_size, "rank")
        each, unit, size = sampler.micro_batches * sampler.blocks_per_batch, "block", ""
        if not self.plan.has_one_size:
            each, unit, size = sampler.micro_batches, "batch", "up to "
        trained = len(np.unique(self.plan.sequence)) / max(cost.steps, 1)
        if each > 1:
            ranks += f" x {each} {unit}{'es' if unit == 'batch' else 's'}"
        longest = len(sampler.lengths) * int(sampler.lengths.max())  # slots if padded to it
        deleted = f"{cost.deleted:,} frames deleted, " if cost.deleted else ""
        return (
            f"{_counted(cost.blocks, 'block')} of {size}{self.plan.t_max:,}, "
            f"{100 * cost.padding / (cost.frames + cost.padding):.2f} % padding, {deleted}"
            f"{_counted(cost.steps, 'step')} x {ranks}, {trained:.1f} sequences a step, "
            f"{longest / cost.processed:.1f}x fewer slots than padding"
            f"{'; ' if sampler.note else ''}{sampler.note}"
        )

    def __iter__(self) -> Iterator[Batch]:
        # Workers fetch early, so the sampler runs ahead; what counts is yielded here.
        self._iterations = mine = self._iterations + 1
        self.step, schedule = self.sampler.next_step, self.sampler.schedule
        try:
            batches = iter(self.data)
            for step in range(self.step, schedule.steps):
                for _ in schedule.micro_batches(step, self.sampler.rank):
                    if mine != self._iterations:
                        raise InputError(
                            "this iterator ended when another of the same loader began; make a "
                            "loader for each"
                        )
                    batch = next(batches)
                    self.step = step + batch.ends_step  # handed over; train on it before you save
                    yield batch
            next(batches, None)  # even where no step was left, the sampler's iteration is over
        except InputError as error:
            # A worker's error contains its traceback; the sentence is the last line.
            raise InputError(str(error).rstrip().rsplit("InputError: ", 1)[-1]) from None

    def by_step(self) -> Iterator[list[Batch]]:
        """Yield the batches of each step together, all of them read."""
        step: list[Batch] = []
        for batch in self:
            step.append(batch)
            if batch.ends_step:
                yield step
                step = []

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; the current epoch keeps a position that was loaded."""
        self.sampler.set_epoch(epoch)
        self.step = self.sampler.next_step

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch yielded, for any number of workers.

        Under ``long="carry"`` also `carried`, so that each rank has to save its own.

        Raises:
            InputError: in the middle of an epoch `carried` is missing then.
        """
        state = self.sampler.state_dict(self.step)
        if self.plan.carries and 0 < self.step < self.steps:
            if self.carried is None:
                raise InputError(
                    "under long=carry the states of the rows would be lost; set loader.carried to "
                    "what each step returns, or save them and take loader.sampler.state_dict"
                )
            state["carried"] = self.carried
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the batch after those that `state` had seen; see `BlockSampler`."""
        self.sampler.load_state_dict(state)
        self.step, self.carried = self.sampler.next_step, state.get("carried")


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
