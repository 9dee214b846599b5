"""What Lightning does with a `BlockLoader` besides training, on two ranks."""

import runpy
import sys
from pathlib import Path

import lightning
import torch
from torch.nn.functional import cross_entropy

FOLDER = Path(__file__).parents[2] / "examples/trainers"
sys.path.insert(0, str(FOLDER))
Example = runpy.run_path(str(FOLDER / "with_lightning.py"))["Module"]
from task import Source  # noqa: E402


class Module(Example):
    def test_dataloader(self):
        return self.val_dataloader()

    predict_dataloader = test_dataloader
    test_step = Example.validation_step

    def predict_step(self, batch):
        return batch.inputs_BT.dtype, self.logits(batch).dtype, len(batch.segments)


def trainer(**options):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return lightning.Trainer(accelerator="cpu", devices=2, max_epochs=1, **quiet, **options)


torch.manual_seed(0)
module, fit = Module(), trainer()
fit.fit(module)
items = [Source().read(s, 0, n) for s, n in enumerate(Source.lengths)]
with torch.no_grad():  # each sequence alone
    logits = [module.head(module.gru(frames[None])[0][0]) for frames, _ in items]
expected = float(cross_entropy(torch.cat(logits), torch.cat([kinds for _, kinds in items])))
losses = [float(fit.callback_metrics["val_loss"])]
losses += [way(module)[0]["val_loss"] for way in (fit.validate, fit.test)]
assert all(abs(loss - expected) < 1e-5 for loss in losses), (losses, expected)
assert sum(segments for *_, segments in fit.predict(module)) > 0
for precision, inputs in (("bf16-mixed", torch.float32), ("bf16-true", torch.bfloat16)):
    module, fit = Module(), trainer(precision=precision)
    fit.fit(module)
    assert torch.isfinite(fit.callback_metrics["val_loss"])
    assert {found[:2] for found in fit.predict(module)} == {(inputs, torch.bfloat16)}
print("seen")
