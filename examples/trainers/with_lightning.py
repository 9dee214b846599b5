"""Run ``python examples/trainers/with_lightning.py``; stopped, it resumes."""

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from task import Source, Tagger, checked

from bload import BlockLoader, mean_loss


class Module(Tagger, lightning.LightningModule):
    def train_dataloader(self):  # here, not before `fit`: the process group exists
        return BlockLoader(Source(), num_workers=1)

    def val_dataloader(self):
        return BlockLoader(Source(), batch_slots=60)  # here would be other sequences

    def training_step(self, batch):
        return mean_loss(self(batch), batch)

    def validation_step(self, batch):
        loss, frames = mean_loss(self(batch), batch), batch.frames_in_step  # over all ranks
        self.log("val_loss", loss, batch_size=frames, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


if __name__ == "__main__":
    model = checked(Module())
    save = ModelCheckpoint("lightning_run", save_last=True, every_n_train_steps=4)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, max_epochs=8, callbacks=[save])
    trainer.fit(model, ckpt_path="last")
