"""End a run that was stopped between its last step and its summary."""

import pytorch_lightning as pl
from pytorch_lightning.loops.fit_loop import _FitLoop


class EndingFitLoop(_FitLoop):
    """Given the checkpoint of a trained network, Lightning's loop does nothing. This loop starts and ends training
    without a step. So monitors measure the last weights, and charts are drawn.

    Lightning keeps its loops private; `pyproject.toml` pins the minor version for which this was written.
    """

    @classmethod
    def install(cls, trainer: pl.Trainer) -> None:
        given = trainer.fit_loop
        trainer.fit_loop = cls(trainer, min_epochs=given.min_epochs, max_epochs=given.max_epochs)
        trainer.fit_loop.epoch_loop = given.epoch_loop

    @property
    def skip(self) -> bool:
        return super().skip and not self.is_resuming
