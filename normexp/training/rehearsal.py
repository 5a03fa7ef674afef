"""Try the parts of a run before its first step, so that a mistake is reported before anything is written."""

import copy
import math
import warnings

import torch
from torch import Tensor, nn

from normexp.cores import in_bytes, memory
from normexp.data.base import DataModule
from normexp.lit_model import LitModel


def rehearse(model: nn.Module, data: DataModule, batch_size: int) -> None:
    """Run one forward pass in training mode on the meta device. There is no arithmetic, but every layer checks the
    shape of its input. So a norm that cannot work at this batch size says so before training.

    Raises ValueError with one line, also if the outputs of the layers would not fit into memory.
    """
    x, y = data.probe_batch(1)
    shape, kept = (batch_size, *data.input_shape), _Kept()
    rehearsed = copy.deepcopy(model).to("meta").train()
    inputs = torch.empty(shape, device="meta", dtype=x.dtype)
    for module in rehearsed.modules():
        module.register_forward_hook(kept)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            logits = rehearsed(inputs)
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            # A layer reads a value. BatchNorm does so to see whether it is frozen.
            inputs = torch.zeros(shape, dtype=x.dtype)
            logits = copy.deepcopy(model).train()(inputs)
    if inputs._version:  # how often something was written into it
        raise ValueError(
            "model: writes into its inputs, so the next evaluation or measurement would see other data; let its first "
            "layer work on a copy, as `x = x - 0.5` does and `x -= 0.5` does not"
        )
    wanted = (batch_size, *y.shape[1:], data.num_classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"model: gives {got} for a batch of {shape}; must give logits of {wanted}")
    if kept.nbytes > memory() and not torch.cuda.is_available():
        raise ValueError(
            f"batch_size={batch_size}: what the layers give for a batch of {shape} would take {in_bytes(kept.nbytes)}, "
            f"and this machine has {in_bytes(memory())}; choose a smaller batch, input or model"
        )


class _Kept:
    """Counts the bytes of the innermost modules' outputs, which the backward pass needs."""

    def __init__(self) -> None:
        self.nbytes = 0

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(output, Tensor) and not any(module.children()):
            self.nbytes += output.numel() * output.element_size()


def rehearse_optimizer(module: LitModel, *, fused: bool) -> None:
    """Make the optimizer and call the schedule, as training will, and take a step of one weight. Raises ValueError with
    one line if something fails."""
    name = module.make_optimizer.func.__name__
    try:
        module.optimizers_of(list(module.parameters()), fused=fused)
        weight = nn.Parameter(torch.zeros(2, 2))
        weight.grad = torch.zeros(2, 2)
        # Fails for optimizers that need sparse gradients or several losses per step.
        module.make_optimizer([weight]).step()
    except Exception as error:  # torch's messages name no option
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"optimizer: {name} cannot be used here ({reason}); change its options") from error
    for step in (0, max(0, module.total_steps - 1)) if module.schedule.varies else ():
        factor = module.schedule(step, module.total_steps)
        if not isinstance(factor, (int, float)) or not math.isfinite(factor):
            raise ValueError(f"schedule: gives {factor} at step {step}; must give a number")
