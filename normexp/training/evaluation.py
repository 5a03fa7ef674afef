"""Loss and accuracy of a module on whole splits and on each example, outside of fit."""

from collections.abc import Iterable

import torch
from torch import Tensor

from normexp.lit_model import LitModel


def evaluate(module: LitModel, batches: Iterable, trainer) -> dict[str, float]:
    """`{"loss", "accuracy"}` in evaluation mode, in the precision of training."""
    modes = [(layer, layer.training) for layer in module.modules()]  # a network may keep a part in eval mode
    module.eval()
    module.on_validation_epoch_start()
    with torch.inference_mode(), trainer.precision_plugin.val_step_context():
        for index, batch in enumerate(batches):
            module.validation_step(trainer.precision_plugin.convert_input(batch), index)
    for layer, mode in modes:
        layer.training = mode
    return module.evaluation_result()


def evaluate_each(module: LitModel, batches: Iterable, trainer) -> tuple[dict[str, float], Tensor, Tensor]:
    """The same numbers, and for each example, on the CPU: whether answers are right, bool (N, [T]); the loss, (N,)."""
    module.examples = []
    try:
        result = evaluate(module, batches, trainer)
        right, loss = (torch.cat(parts).cpu() for parts in zip(*module.examples, strict=True))
    finally:
        module.examples = None
    return result, right, loss
