"""A run that stops in mid-epoch and resumes from its checkpoint sees the batches that an uninterrupted run sees."""

import pytest
import pytorch_lightning as pl
import torch

from normexp.data import Digits, PythonDocs

BATCHES_PER_EPOCH = 4
EPOCHS = 3


class Interrupted(Exception):
    pass


class Recorder(pl.LightningModule):
    """Notes every batch that it is trained on; `fails_at` raises inside that training step."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.fails_at = fails_at
        self.seen = []

    def training_step(self, batch, batch_idx):
        if self.trainer.global_step == self.fails_at:
            raise Interrupted
        x, y = batch
        self.seen.append((self.current_epoch, batch_idx, x.double().sum().item(), y.tolist()))
        return self.weight**2

    def validation_step(self, batch, batch_idx): ...

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class SaveAt(pl.Callback):
    """Writes a checkpoint at a moment of step `step`, then raises, as a killed process would stop."""

    def __init__(self, path, moment: str, step: int) -> None:
        self.path, self.moment, self.step = path, moment, step

    def save(self, trainer, moment: str) -> None:
        if moment == self.moment and trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)
            raise Interrupted

    def on_train_batch_end(self, trainer, *_):
        self.save(trainer, "batch end")

    def on_validation_end(self, trainer, *_):
        self.save(trainer, "validation end")

    def on_train_epoch_end(self, trainer, *_):
        self.save(trainer, "epoch end")

    def on_exception(self, trainer, _, __):
        if self.moment == "inside a step":
            trainer.save_checkpoint(self.path)


def fit(data, module, limits, callback=None, resume=None):
    silent = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet = dict.fromkeys(silent, False)
    paces, callbacks = {"val_check_interval": 2, "num_sanity_val_steps": 0}, [callback] if callback else []
    trainer = pl.Trainer(accelerator="cpu", callbacks=callbacks, **limits, **paces, **quiet)
    trainer.fit(module, data, ckpt_path=resume, weights_only=True if resume else None)
    return module.seen


def check_resumed(make, limits, moment: str, step: int, path) -> list:
    """A run that stops there and goes on sees the batches of an uninterrupted one, which are returned."""
    whole = fit(make(), Recorder(), limits)
    interrupted = Recorder(fails_at=step if moment == "inside a step" else None)
    with pytest.raises(Interrupted):
        fit(make(), interrupted, limits, SaveAt(path, moment, step))
    resumed = fit(make(), Recorder(), limits, resume=path)
    assert interrupted.seen + resumed == whole
    return whole


def images():
    # A quarter of an epoch is never reached, so len(loader) and the trainer's idea of an epoch differ.
    return Digits(batch_size=16, eval_batch_size=512, val_size=288, train_size=70, augment=True, shift=1)


def text():
    return PythonDocs(batch_size=1000, eval_batch_size=256, context_length=16, train_size=80_000)


MOMENTS = [("batch end", step) for step in range(1, 9)]
MOMENTS += [("inside a step", step) for step in (1, 2, 4, 5)]
MOMENTS += [("validation end", step) for step in (2, 4, 6)]
MOMENTS += [("epoch end", 4), ("epoch end", 8)]


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:Checkpoint directory")
@pytest.mark.parametrize(
    "limits", [{"max_epochs": EPOCHS}, {"max_steps": BATCHES_PER_EPOCH * EPOCHS}], ids=str
)
@pytest.mark.parametrize(("moment", "step"), MOMENTS)
def test_resumed_run_sees_the_batches_of_an_uninterrupted_run(moment, step, limits, tmp_path):
    whole = check_resumed(images, limits, moment, step, tmp_path / "last.ckpt")
    assert len(whole) == BATCHES_PER_EPOCH * EPOCHS
    assert len({str(labels) for *_, labels in whole}) == len(whole)  # every batch can be told from the others


@pytest.mark.parametrize("moment", ["batch end", "inside a step"])
def test_resumed_run_on_text_sees_the_windows_of_an_uninterrupted_run(moment, tmp_path):
    check_resumed(text, {"max_epochs": 2}, moment, 6, tmp_path / "last.ckpt")
