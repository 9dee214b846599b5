"""What trainers do with a `BlockLoader` besides training, on two ranks; with Fabric on one."""

import os
import runpy
import sys
from pathlib import Path

import lightning
import torch
from accelerate import Accelerator
from lightning.fabric import Fabric
from torch.nn.functional import cross_entropy
from torchmetrics import MeanMetric

from bload import mean_loss

FOLDER = Path(__file__).parents[2] / "examples/trainers"
sys.path.insert(0, str(FOLDER))
Example = runpy.run_path(str(FOLDER / "with_lightning.py"))["Module"]


class Module(Example):
    sanity = ()

    def __init__(self):
        super().__init__()
        self.mean_length = MeanMetric()

    def test_dataloader(self):
        return self.val_dataloader()

    predict_dataloader = test_dataloader

    def validation_step(self, batch):
        if self.trainer.sanity_checking:
            self.sanity += (batch.sequence_BT.tolist(),)
        super().validation_step(batch)
        if len(batch.segments):
            self.mean_length.update(batch.segments.length_S)
        self.log("mean_length", self.mean_length, batch_size=1)

    test_step = Example.validation_step

    def predict_step(self, batch):
        return batch.inputs_BT.dtype, self.logits(batch).dtype, len(batch.segments)


def mean_by_hand(module):
    """The loss over all frames, each sequence alone."""
    from task import Source

    items = [Source().read(s, 0, n) for s, n in enumerate(Source.lengths)]
    with torch.no_grad():
        logits = [module.head(module.gru(frames[None])[0][0]) for frames, _ in items]
    return float(cross_entropy(torch.cat(logits), torch.cat([kinds for _, kinds in items])))


def trainer(**options):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return lightning.Trainer(accelerator="cpu", devices=2, **quiet, **options)


def in_lightning() -> None:
    torch.manual_seed(0)
    module = Module()
    fit = trainer(max_epochs=2)
    fit.fit(module)
    expected = mean_by_hand(module)
    found = [float(fit.callback_metrics["val_loss"])]
    found += [way(module)[0]["val_loss"] for way in (fit.validate, fit.test)]
    assert all(abs(one - expected) < 1e-5 for one in found), (found, expected)
    lengths = Example().val_dataloader().sampler.lengths  # 23 sequences: no equal shares
    assert abs(fit.validate(module)[0]["mean_length"] - lengths.mean()) < 1e-5
    first = [batch.sequence_BT.tolist() for batch in module.val_dataloader()][:2]
    assert list(module.sanity) == first  # the first two batches; validation then begins anew
    assert sum(segments for *_, segments in fit.predict(module)) > 0
    trainer(fast_dev_run=True).fit(Module())
    for precision in ("bf16-mixed", "bf16-true"):
        other = trainer(max_epochs=1, precision=precision)
        module = Module()
        other.fit(module)
        assert torch.isfinite(other.callback_metrics["val_loss"])
        dtypes = {found[:2] for found in other.predict(module)}
        inputs = torch.bfloat16 if precision == "bf16-true" else torch.float32
        assert dtypes == {(inputs, torch.bfloat16)}, dtypes


def in_accelerate() -> None:
    accelerator, module = Accelerator(cpu=True), Module()
    model, total, frames = accelerator.prepare(module), 0.0, 0
    with torch.no_grad():
        for batch in module.val_dataloader():
            loss = mean_loss(model(batch), batch)
            total += accelerator.gather_for_metrics(loss[None]).mean() * batch.frames_in_step
            frames += batch.frames_in_step
    assert abs(total / frames - mean_by_hand(module)) < 1e-5


def in_fabric() -> None:
    for precision in ("bf16-mixed", "bf16-true"):
        fabric, module = Fabric(accelerator="cpu", devices=1, precision=precision), Module()
        fabric.launch()
        loader = module.train_dataloader()
        model, optimiser = fabric.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))
        for batch in loader:
            fabric.backward(mean_loss(model(batch.to(fabric.device)), batch))
            optimiser.step()
            optimiser.zero_grad()


if __name__ == "__main__":
    for way in (in_lightning, in_accelerate) if "RANK" in os.environ else (in_fabric,):
        way()
    print("seen")
