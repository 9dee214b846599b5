"""The batch sampler of an epoch's plan: what a torch DataLoader needs, and exact resume."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from operator import index
from typing import Any

import torch.distributed as dist
from numpy.typing import ArrayLike
from torch.utils.data import Sampler

from bload.dealing import EpochAccount, Last, account, blocks_per_rank, deal
from bload.errors import InputError, TooLongError
from bload.packers import make_plan, packer_options
from bload.plan import Block, Plan, check_lengths, filler_block


class BlockSampler(Sampler[list[Block]]):
    """Yields the blocks of one rank, step by step; every rank takes the same number of steps.

    Use it as the ``batch_sampler`` of a DataLoader over a `BlockDataset`. It yields `Block` values
    instead of numbers, so worker processes need no plan of their own and may persist over epochs.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        packer: a key of `bload.packers.PACKERS`. ``bload_exact`` pads least; ``bload`` draws as the
            paper does, for comparisons with it and where packing has to be instant.
        batch_frames: slots that a rank processes per step. A block cannot be cut, so it is rounded
            down to ``batch_frames // t_max`` whole blocks; None takes one block.
        t_max: slots in a block; None takes the packer's natural size, see `natural_t_max`.
        rank: of this process; None takes it from the process group, and without one 0.
        world_size: number of ranks; None takes it from the process group, and without one 1.
        seed: with the epoch, the only source of the plan's randomness.
        last: ``fill`` or ``drop``, see `bload.dealing.account`.
        names: of the sequences, for error messages.
        process_group: of the ranks that share the data, where not all do (tensor or pipeline
            parallelism): ``mesh["dp"].get_group()``. None takes the default group.
        options: the packer's own; note that ``long="split"`` clears the state at every cut.

    Raises:
        InputError: bad lengths or options, a batch smaller than one block, a rank or world size
            that contradicts the process group, or, when iteration begins, ranks that would not
            train one plan from one step on.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        packer: str = "bload_exact",
        *,
        batch_frames: int | None = None,
        t_max: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        seed: int = 0,
        last: Last = "fill",
        names: Sequence[str] | None = None,
        process_group: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        self.rank, self.world_size = _place(rank, world_size, process_group)
        self.process_group = process_group
        self.lengths = check_lengths(lengths, names)
        self.packer = packer
        self.options = options
        self.seed = int(seed)
        self.last: Last = last
        self.epoch = 0
        self._plan_epoch = 0
        try:
            self._plan = make_plan(self.lengths, packer, t_max, seed, 0, **options)
        except TooLongError as error:
            raise (error.named(names) if names else error) from None
        self.t_max = self._plan.t_max
        self.blocks_per_rank = blocks_per_rank(
            self.t_max if batch_frames is None else batch_frames, self.t_max
        )
        self.next_step = 0
        """Step of the epoch at which the next iteration begins."""
        self._yielded = 0
        self._digest = hashlib.sha256(self.lengths.tobytes()).hexdigest()[:16]
        len(self)  # refuses a wrong `last`, and dropping everything, now instead of at step 0

    @property
    def sampler(self) -> "BlockSampler":
        """Itself: trainers such as Lightning and Accelerate set the epoch on what this returns."""
        return self

    @property
    def blocks_per_step(self) -> int:
        """Blocks that all ranks together train in one step."""
        return self.world_size * self.blocks_per_rank

    @property
    def plan(self) -> Plan:
        """The plan of the current epoch, the same on every rank."""
        if self._plan_epoch != self.epoch:
            self._plan = make_plan(
                self.lengths, self.packer, self.t_max, self.seed, self.epoch, **self.options
            )
            self._plan_epoch = self.epoch
        return self._plan

    @property
    def account(self) -> EpochAccount:
        """Cost of the current epoch, all ranks together."""
        return account(self.plan, self.blocks_per_step, self.last)

    def __len__(self) -> int:
        """Steps of the current epoch, the same on every rank."""
        return self.account.steps

    def __iter__(self) -> Iterator[list[Block]]:
        self._compare_ranks()
        plan, steps = self.plan, len(self)
        start, self.next_step = self.next_step, 0
        for step in range(start, steps):
            dealt = deal(plan.blocks, self.world_size, self.blocks_per_rank, step, self.rank)
            self._yielded = step + 1
            yield [filler_block(self.t_max) if b < 0 else plan.block(int(b)) for b in dealt]

    def _compare_ranks(self) -> None:
        """Raise InputError on every rank if the ranks are not about to train one plan in step."""
        if not (dist.is_available() and dist.is_initialized()):
            return
        made = self.rank, self.world_size
        group = dist.get_rank(self.process_group), dist.get_world_size(self.process_group)
        if made != group:
            raise InputError(
                f"the loader was made as rank {made[0]} of {made[1]}, but this process is now rank "
                f"{group[0]} of {group[1]}; make it after the process group"
            )
        mine = {"epoch": self.epoch, "step": self.next_step, **self.definition()}
        positions: list[dict[str, Any]] = [{}] * self.world_size
        dist.all_gather_object(positions, mine, self.process_group)
        for rank, position in enumerate(positions):
            for key, value in position.items():
                if value != positions[0][key]:
                    raise InputError(
                        f"ranks have different plans: {key} is {positions[0][key]} on rank 0 and "
                        f"{value} on rank {rank}; give every rank the same lengths, options, epoch "
                        "and saved position"
                    )

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; the current epoch keeps a position that was loaded."""
        if index(epoch) < 0:
            raise InputError(f"epoch is {epoch}; epochs count from 0")
        if epoch != self.epoch:
            self.epoch = epoch
            self.next_step = self._yielded = 0

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the epoch, the steps done in it, and what defines the plan, as plain values.

        Args:
            step: steps trained in this epoch. None takes the batches yielded, which is right only
                while no worker fetches ahead; `BlockLoader` counts what it yields itself.
        """
        return {
            "epoch": self.epoch,
            "step": self._yielded if step is None else step,
            "plan": self.definition(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken.

        Raises:
            InputError: the state belongs to another plan; the message names what differs.
        """
        place = (state["epoch"], state["step"]) if {"epoch", "step", "plan"} <= {*state} else ()
        counts = [number for number in place if type(number) is int and number >= 0]
        if len(counts) < 2 or not isinstance(state["plan"], dict):
            raise InputError("this is no state_dict of a BlockSampler or BlockLoader")
        mine, saved = self.definition(), state["plan"]
        differs = [
            f"{key} was {saved.get(key)} and is {mine.get(key)}"
            for key in {**mine, **saved}
            if saved.get(key) != mine.get(key)
        ]
        if differs:
            raise InputError(
                f"the saved position belongs to another plan: {'; '.join(differs)}; "
                "restore these settings or start anew"
            )
        self.epoch, self.next_step = counts
        self._yielded = self.next_step

    def definition(self) -> dict[str, Any]:
        """Return everything that the blocks of a step depend on, as plain values."""
        return {
            "packer": self.packer,
            "t_max": self.t_max,
            "options": packer_options(self.packer) | self.options,
            "seed": self.seed,
            "last": self.last,
            "blocks per step": self.blocks_per_step,
            "sequences": len(self.lengths),
            "frames": int(self.lengths.sum()),
            "lengths digest": self._digest,
        }


def _place(
    rank: int | None, world_size: int | None, process_group: dist.ProcessGroup | None
) -> tuple[int, int]:
    """Return the rank and the world size: those given, else those of the process group."""
    if dist.is_available() and dist.is_initialized():
        group = dist.get_rank(process_group), dist.get_world_size(process_group)
        if group[0] < 0:
            raise InputError("this process is not in the process_group that was given")
        given = group[0] if rank is None else rank, group[1] if world_size is None else world_size
        if given != group:
            raise InputError(
                f"rank {given[0]} of {given[1]} was given, but this process is rank {group[0]} of "
                f"{group[1]} in its process group; leave rank and world_size out, or give the "
                "process_group of the ranks that share the data"
            )
        return group
    waiting = int(os.environ.get("WORLD_SIZE", 1))  # set by torchrun
    if rank is None and world_size is None and waiting > 1:
        raise InputError(
            f"WORLD_SIZE is {waiting} but there is no process group yet; call "
            "torch.distributed.init_process_group first, or give rank and world_size"
        )
    if (rank is None) != (world_size is None) and world_size != 1:
        raise InputError(
            f"rank is {rank} and world_size is {world_size} without a process group; give both"
        )
    rank, world_size = rank or 0, 1 if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise InputError(f"rank {rank} of {world_size} ranks; ranks count from 0 to world_size - 1")
    return rank, world_size
