"""End a run whose validation no longer improves."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytorch_lightning as pl

from normexp.config.early_stopping import EarlyStop, early_stop
from normexp.training.recorder import Recorder


def without_progress(history: Sequence[Mapping[str, float]], rule: EarlyStop) -> int:
    """The number of validations in a row, up to the last one, that were no better than the best before them.

    `history` has one row per validation. Better means better by more than `min_delta`. A value that is not finite is
    not better.
    """
    sign = 1.0 if rule.metric == "accuracy" else -1.0
    best, waited = float("-inf"), 0
    for row in history:
        value = sign * row[f"val_{rule.metric}"]
        if value > best + rule.min_delta or (best == float("-inf") and value > best):
            best, waited = value, 0
        else:
            waited += 1
    return waited


class EarlyStopping(pl.Callback):
    """Stops after `patience` validations without progress. It has no state: the recorder's history decides, so a
    resumed run stops at the same step."""

    def __init__(self, rule: EarlyStop, recorder: Recorder):
        self.rule, self.recorder = rule, recorder
        self.stopped = False

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if without_progress(self.recorder.history, self.rule) >= self.rule.patience:
            self.stopped = True
            trainer.should_stop = True


def early_stopping(config: dict[str, Any], recorder: Recorder) -> list[EarlyStopping]:
    """The callback for a configuration's rule, or none."""
    rule = early_stop(config)
    return [EarlyStopping(rule, recorder)] if rule else []


def stopped_early(callbacks: Iterable[pl.Callback]) -> bool:
    """Whether one of the callbacks ended its run."""
    return any(isinstance(callback, EarlyStopping) and callback.stopped for callback in callbacks)
