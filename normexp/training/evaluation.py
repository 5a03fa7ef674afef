"""Loss and accuracy of a module over whole splits, outside of fit."""

from collections.abc import Iterable

import torch

from normexp.lit_model import LitModel


def evaluate(module: LitModel, batches: Iterable, trainer) -> dict[str, float]:
    """`{"loss", "accuracy"}` in evaluation mode, under the precision that the run trained in."""
    mode = module.training
    module.eval()
    module.on_validation_epoch_start()
    with torch.inference_mode(), trainer.precision_plugin.val_step_context():
        for index, batch in enumerate(batches):
            module.validation_step(trainer.precision_plugin.convert_input(batch), index)
    module.train(mode)
    return module.evaluation_result()
