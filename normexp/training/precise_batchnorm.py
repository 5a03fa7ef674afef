"""Precise BatchNorm: recompute population statistics from the training split before each evaluation."""

import pytorch_lightning as pl

from normexp.data.base import DataModule
from normexp.lit_model import LitModel
from normexp.norms import recompute_population_statistics
from normexp.training.lightning import data_of

SAMPLES = 10_000  # Wu & Johnson 2021: 1,000 to 10,000 samples are enough


def needs_population_statistics(module: LitModel) -> bool:
    """Whether some layer needs its population statistics recomputed."""
    return any(getattr(layer, "population_statistics", None) == "precise" for layer in module.model.modules())


def update_population_statistics(module: LitModel, data: DataModule, trainer: pl.Trainer) -> None:
    """Recompute the running statistics of a model whose norms need it, in the precision of training. Do nothing to
    other models."""
    if needs_population_statistics(module):
        precision = trainer.precision_plugin
        batches = map(precision.convert_input, data.evaluation_loader("train", SAMPLES))
        with precision.val_step_context():
            recompute_population_statistics(module.model, batches)


class PopulationStatistics(pl.Callback):
    """Recomputes population statistics before each validation, as `norm=batchnorm_precise` means it."""

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, LitModel)
        update_population_statistics(module, data_of(trainer), trainer)
