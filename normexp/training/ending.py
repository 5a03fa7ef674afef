"""A run that was stopped between its last step and its summary."""

import pytorch_lightning as pl
from pytorch_lightning.loops.fit_loop import _FitLoop


class EndingFitLoop(_FitLoop):
    """Lightning's loop, which of a checkpoint of a trained network makes nothing at all: here training starts and ends
    without a step, so that monitors measure the last weights and the charts are drawn.

    Lightning keeps its loops private; `pyproject.toml` holds it to the minor version this was written for.
    """

    @classmethod
    def install(cls, trainer: pl.Trainer) -> None:
        given = trainer.fit_loop
        trainer.fit_loop = cls(trainer, min_epochs=given.min_epochs, max_epochs=given.max_epochs)
        trainer.fit_loop.epoch_loop = given.epoch_loop

    @property
    def skip(self) -> bool:
        return super().skip and not self.is_resuming
