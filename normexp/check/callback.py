"""A Lightning callback that checks the norms once, before the first batch of a fit."""

from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.rank_zero import rank_zero_info

from normexp.check.inputs import PRECISIONS
from normexp.check.result import Result
from normexp.check.run import check

LINES = 5


class CheckNorms(Callback):
    """Checks the network at the start of `fit` and says at most five lines. The training keeps its bits.

    Args:
        strict: stop with an error if there is an error or a warning.
        samples: batches are cut to this many samples.

    Attributes:
        result: of the last check.
    """

    def __init__(self, *, strict: bool = False, samples: int = 32) -> None:
        self.strict, self.samples = strict, samples
        self.result: Result | None = None

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """A new fit is checked anew."""
        self.result = None

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Check the module with its first batch, and the trainer's optimizer, precision, accumulation and processes.

        The loader is not asked for another batch: that would move one whose workers persist.
        """
        if self.result is not None:
            return
        precision = str(trainer.precision)
        self.result = check(
            module,
            [batch],
            optimizer=trainer.optimizers[0] if trainer.optimizers else None,
            precision=precision if precision in PRECISIONS else None,
            accumulate=trainer.accumulate_grad_batches,
            devices=trainer.world_size,
            steps=int(trainer.num_training_batches) if trainer.num_training_batches < float("inf") else None,
            samples=self.samples,
        )
        lines = self.result.lines(LINES)
        for line in lines:
            rank_zero_info(line)
        if self.strict and not self.result.ok:
            raise ValueError("\n".join(lines))
