"""The whole path from a sequence source to batches, with exact resume."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader

from bload.batch import Batch, collate_blocks
from bload.dataset import BlockDataset, SequenceSource
from bload.dealing import EpochAccount, Last
from bload.errors import InputError
from bload.plan import Plan
from bload.sampler import BlockSampler


class BlockLoader:
    """Yields batches of packed blocks for one rank; every rank takes the same number of steps.

        loader = BlockLoader(source, "bload", batch_frames=376, rank=rank, world_size=ranks)
        for epoch in range(epochs):
            loader.set_epoch(epoch)
            for batch in loader:
                ...

    Args:
        source: anything with ``lengths`` and ``read(sequence, first, length)``.
        packer, batch_frames, t_max, rank, world_size, seed, last, names, options: as in
            `BlockSampler`.
        workers: reading processes; 0 reads in this one.
        pin_memory: put batches into page-locked memory for faster copies to a GPU.
    """

    def __init__(
        self,
        source: SequenceSource,
        packer: str = "bload",
        *,
        batch_frames: int,
        t_max: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        last: Last = "fill",
        names: Sequence[str] | None = None,
        workers: int = 0,
        pin_memory: bool = False,
        **options: Any,
    ) -> None:
        self.sampler = BlockSampler(
            source.lengths,
            packer,
            batch_frames=batch_frames,
            t_max=t_max,
            rank=rank,
            world_size=world_size,
            seed=seed,
            last=last,
            names=names,
            **options,
        )
        self.data = DataLoader(
            BlockDataset(source),
            batch_sampler=self.sampler,
            collate_fn=collate_blocks,
            num_workers=workers,
            pin_memory=pin_memory,
            persistent_workers=workers > 0,
        )
        self.step = 0
        """Batches of the current epoch yielded so far."""

    @property
    def plan(self) -> Plan:
        return self.sampler.plan

    @property
    def account(self) -> EpochAccount:
        return self.sampler.account

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Batch]:
        # Workers fetch early, so the sampler runs ahead; what counts is yielded here.
        self.step = self.sampler.next_step
        try:
            for batch in self.data:
                self.step += 1
                yield batch
        except InputError as error:
            # A worker's error contains its traceback; the sentence is the last line.
            raise InputError(str(error).rstrip().rsplit("InputError: ", 1)[-1]) from None

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; the current epoch keeps a position that was loaded."""
        self.sampler.set_epoch(epoch)
        self.step = self.sampler.next_step

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch yielded, for any number of workers."""
        return self.sampler.state_dict(self.step)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the batch after those that `state` had seen; see `BlockSampler`."""
        self.sampler.load_state_dict(state)
        self.step = self.sampler.next_step
