"""Frames as the network sees them: resized on the device to one canvas, proportions kept.

B blocks, T slots, C channels, H x W pixels; h x w pixels of a picture on its canvas.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

from bload import Batch
from datasets.config import AugmentConfig
from datasets.frames.files import fit
from datasets.source import VideoSource


class Letterbox:
    """Resizes the videos of a batch, as large as they fit, into the top left of the canvas.

    Args:
        source: source of the batches; its `canvas_hw` is the size of the canvas.
        augment: bounds of changes of a video's frames and boxes alike; None for evaluation.
        seed: of the changes.
    """

    def __init__(
        self, source: VideoSource, augment: AugmentConfig | None = None, seed: int = 0
    ) -> None:
        self.source, self.augmentation = source, None
        if augment and any(vars(augment).values()):
            from datasets.augmentation import Augmentation  # rarely needed

            self.augmentation = Augmentation(**vars(augment), seed=seed)

    @property
    def leaves_margins(self) -> bool:
        """True if some pictures may not fill the canvas."""
        canvas_hw = self.source.canvas_hw
        sizes = {video.frames[0].size_hw for video in self.source.videos}
        return bool(self.augmentation) or any(fit(size, canvas_hw) != canvas_hw for size in sizes)

    def __call__(
        self, batch: Batch, device: torch.device | str = "cpu", epoch: int = 0
    ) -> tuple[Batch, Tensor | None]:
        """Move a batch to `device` and resize it there; frames of the right size stay as they are.

        Returns:
            the batch, its frames ``(B, T, 3, H, W)`` uint8 and its targets changed by the
            augmentation; and `extent_BT2`, on the host, the shares of the canvas' width and height
            that each picture fills (1 on padding), or None if all fill it.
        """
        segments, canvas_hw = batch.segments, self.source.canvas_hw
        end_S = segments.length_S.cumsum(0)
        columns = (segments.block_S, segments.slot_S, segments.sequence_S, segments.length_S, end_S)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        native_S = [batch.targets[end - 1].size_hw for *_, end in rows]
        stored_S = [self.source.store.stored_size(size_hw) for size_hw in native_S]
        batch = batch.to(device, non_blocking=True)
        is_canvas_size = {self.source.read_hw, *stored_S} == {canvas_hw}
        if is_canvas_size and not self.augmentation:
            return batch, None
        frames_BTCHW = batch.inputs_BT.new_zeros(*batch.inputs_BT.shape[:3], *canvas_hw)
        extent_BT2 = torch.ones(*frames_BTCHW.shape[:2], 2)
        targets = list(batch.targets)
        for (block, slot, video, length, end), (height, width) in zip(rows, stored_S, strict=True):
            slots, video_frames = slice(slot, slot + length), slice(end - length, end)
            picture_TCHW = batch.inputs_BT[block, slots, :, :height, :width]
            limit_hw = canvas_hw
            if self.augmentation:
                union_4 = self.source.videos[video].union_box()
                picture_TCHW, targets[video_frames], share = self.augmentation(
                    picture_TCHW, targets[video_frames], union_4, video, epoch
                )
                limit_hw = max(1, round(share * limit_hw[0])), max(1, round(share * limit_hw[1]))
            height, width = fit((picture_TCHW.shape[-2], picture_TCHW.shape[-1]), limit_hw)
            frames_BTCHW[block, slots, :, :height, :width] = transforms.resize(
                picture_TCHW, [height, width], antialias=True
            )
            extent_BT2[block, slots] = torch.tensor([width / canvas_hw[1], height / canvas_hw[0]])
        batch = replace(batch, inputs_BT=frames_BTCHW, targets=tuple(targets))
        return batch, None if (extent_BT2 == 1).all() else extent_BT2
