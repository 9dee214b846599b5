"""Train the example of transformers; ``python FILE FOLDER ACCUMULATE [KILLED_AT]``."""

import os
import runpy
import sys
from pathlib import Path

import torch
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

EXAMPLE = Path(__file__).parents[2] / "examples/trainers/with_transformers.py"


class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == int(sys.argv[3]):
            os._exit(1)


if __name__ == "__main__":
    folder, accumulate = sys.argv[1], int(sys.argv[2])
    example = runpy.run_path(str(EXAMPLE))
    trainer = example["make_trainer"](folder, gradient_accumulation_steps=accumulate)
    for callback in [Kill()] if len(sys.argv) > 3 else []:
        trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
    trainer.eval_dataset = {"some": trainer.eval_dataset}  # by name, as `Trainer` allows
    loss = trainer.evaluate()["eval_some_loss"]
    found = trainer.predict(trainer.eval_dataset["some"])
    labels = found.label_ids[:, 1:]
    predicted = sum(len(text["input_ids"]) - 1 for text in trainer.eval_dataset["some"])
    assert (labels != -100).sum() == predicted  # every token once, but the first of a text
    assert (found.predictions[:, :-1].argmax(-1) == labels)[labels != -100].mean() > 0.5
    if trainer.is_world_process_zero():
        torch.save({"weights": trainer.model.state_dict(), "loss": loss}, f"{folder}/end.pt")
    trainer.accelerator.end_training()  # else a rank may end before its threads, and abort
