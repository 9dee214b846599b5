"""Run ``torchrun --nproc_per_node=2 examples/trainers/with_accelerate.py``; stopped, it resumes."""

from pathlib import Path

import torch
from accelerate import Accelerator
from task import Source, Tagger, checked

from bload import BlockLoader, mean_loss

accelerator, model = Accelerator(cpu=True), checked(Tagger())  # Accelerator() on GPUs
model, optimiser = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=0.01))
loader = BlockLoader(Source(), num_workers=1, elastic=True)  # after Accelerator()
accelerator.register_for_checkpointing(loader)
saved = Path("accelerate_run").glob("*/custom_checkpoint_0.pkl")  # which a save writes last
if last := max(saved, default=None):
    accelerator.load_state(str(last.parent))
for epoch in range(loader.epoch, 8):
    loader.set_epoch(epoch)  # new blocks
    for batch in loader:
        optimiser.zero_grad()
        loss_sum = model(batch.to(accelerator.device))
        accelerator.backward(mean_loss(loss_sum, batch))
        optimiser.step()
        if loader.step % 4 == 0 or loader.step == loader.steps:
            accelerator.save_state(f"accelerate_run/{epoch:03}-{loader.step:06}")
    accelerator.print(f"epoch {epoch}, {loader.step} steps")
accelerator.end_training()  # ends the process group
