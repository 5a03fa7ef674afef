"""End a run that was stopped between its last step and its summary."""

import pytorch_lightning as pl
from pytorch_lightning.loops.fit_loop import _FitLoop
from pytorch_lightning.loops.loop import _Loop


class EndingFitLoop(_FitLoop):
    """Given the checkpoint of a trained network, Lightning's loop does nothing. This loop starts and ends training
    without a step. So monitors measure the last weights, and charts are drawn.

    Given the checkpoint of an epoch's end, it goes on with the next epoch. Lightning's loop ends that epoch a second
    time where `max_steps` limits the run.

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

    @_FitLoop.restarting.setter
    def restarting(self, restarting: bool) -> None:
        epochs = vars(self.epoch_progress.current)
        vars(_Loop)["restarting"].fset(self, restarting and epochs["ready"] != epochs["processed"])
