"""Loss and accuracy of a module over whole splits, outside of fit, and over each example."""

from collections.abc import Iterable

import torch
from torch import Tensor

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


def evaluate_each(module: LitModel, batches: Iterable, trainer) -> tuple[dict[str, float], Tensor, Tensor]:
    """The same numbers, and of each example on the CPU: bool (N, [T]), which answers are right; (N,), its loss."""
    module.examples = []
    try:
        result = evaluate(module, batches, trainer)
        right, loss = (torch.cat(parts).cpu() for parts in zip(*module.examples, strict=True))
    finally:
        module.examples = None
    return result, right, loss
