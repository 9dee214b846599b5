"""The example of Lightning, which goes on on as many ranks as torchrun has started."""

import os
import runpy
import sys
from pathlib import Path

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint

from bload import BlockLoader

FOLDER = Path(__file__).parents[2] / "examples/trainers"
sys.path.insert(0, str(FOLDER))
Example = runpy.run_path(str(FOLDER / "with_lightning.py"))["Module"]
from task import Source  # noqa: E402


class Module(Example):
    position = None

    def on_load_checkpoint(self, checkpoint):
        (self.position,) = checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"]

    def train_dataloader(self):
        loader = BlockLoader(Source(), num_workers=1, elastic=True)
        if self.position:  # before Lightning asks for the length
            loader.load_state_dict(self.position)
            self.position = None
        return loader


if __name__ == "__main__":
    model = Module()
    save = ModelCheckpoint("lightning_run", save_last=True, every_n_train_steps=4)
    ranks = {"accelerator": "cpu", "devices": int(os.environ["WORLD_SIZE"])}
    trainer = lightning.Trainer(
        **ranks, max_epochs=8, callbacks=[save], reload_dataloaders_every_n_epochs=1
    )
    trainer.fit(model, ckpt_path="last")
