"""Try the parts of a run before its first step, so that a mistake is reported before anything is written."""

import copy
import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from normexp.cores import in_bytes, memory
from normexp.data.base import DataModule
from normexp.lit_model import LitModel

KNOWN = ("torch.", "normexp.")  # layers that write into no input, and keep what they need in checkpoints


def rehearse(model: nn.Module, data: DataModule, batch_size: int) -> None:
    """Run forward passes, as in training and in evaluation, on the meta device. There is no arithmetic, but every layer
    checks the shape of its input. So a norm that cannot work at this batch size says so before training.

    Raises ValueError with one line, also if the outputs of the layers would not fit into memory.
    """
    x, y = data.probe_batch(1)
    shape = (batch_size, *data.input_shape)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            inputs = torch.empty(shape, device="meta", dtype=x.dtype)
            logits, nbytes = _passes(copy.deepcopy(model).to("meta"), inputs)
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            # A layer reads a value. BatchNorm does so to see whether it is frozen.
            inputs = torch.zeros(shape, dtype=x.dtype)
            logits, nbytes = _passes(copy.deepcopy(model), inputs)
    if inputs._version:  # how often something was written into it, in training or in evaluation
        raise ValueError(
            "model: writes into its inputs, so the next evaluation or measurement would see other data; let its first "
            "layer work on a copy, as `x = x - 0.5` does and `x -= 0.5` does not"
        )
    wanted = (batch_size, *y.shape[1:], data.num_classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"model: gives {got} for a batch of {shape}; must give logits of {wanted}")
    if nbytes > memory() and not torch.cuda.is_available():
        raise ValueError(
            f"batch_size={batch_size}: what the layers give for a batch of {shape} would take {in_bytes(nbytes)}, "
            f"and this machine has {in_bytes(memory())}; choose a smaller batch, input or model"
        )


def _passes(network: nn.Module, inputs: Tensor) -> tuple[Any, int]:
    """(result, bytes that the layers give) of a pass in training. If some layer is neither torch's nor this project's,
    a pass in evaluation follows."""
    kept = _Kept()
    hooks = [module.register_forward_hook(kept) for module in network.modules()]
    logits = network(inputs)
    for hook in hooks:
        hook.remove()
    if all(type(layer).__module__.startswith(KNOWN) for layer in network.modules()):
        return logits, kept.nbytes
    saved = network.state_dict().keys()
    if unsaved := {name: buffer for name, buffer in network.named_buffers() if name not in saved}:
        before = {name: buffer._version for name, buffer in unsaved.items()}
        network(inputs)  # the first pass may have made some
        for name, buffer in network.named_buffers():
            if name in before and (buffer is not unsaved[name] or buffer._version != before[name]):
                raise ValueError(
                    f"model: each step changes {name}, which is in no checkpoint, so a resumed run would begin it "
                    "anew; leave out persistent=False where it is registered"
                )
    network.eval()(inputs)
    return logits, kept.nbytes


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
