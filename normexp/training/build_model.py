"""A model with its initial weights, and a pass through it before anything is written: a mistake or a lack of memory is
one line. Imports no Lightning: laws build models too."""

import contextlib
import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from normexp.config.targets import construct, refused
from normexp.machine import in_bytes, memory

if TYPE_CHECKING:
    from normexp.data.base import DataModule

KNOWN = ("torch.", "normexp.")  # layers that write into no input
COPIES = 3  # weights, gradients, and at least as much for the optimizer


def build_model(config: dict[str, Any], data: Any, allowed: Iterable[str] | None = None) -> nn.Module:
    """The model with its initial weights, for data of this `input_shape` and `num_classes`. Outside the norms, the
    weights depend on the seed and not on the norm.

    Raises ValueError with one line, also for a model that memory cannot hold or that would take minutes to build.
    """
    make, norm = (construct(group, config[group], allowed) for group in ("model", "norm"))
    with refused("model", make.func.__name__), _within_memory():
        torch.manual_seed(config["seed"])
        return make(input_shape=data.input_shape, num_classes=data.num_classes, norm=norm)


@contextlib.contextmanager
def _within_memory() -> Iterator[None]:
    """Inside this context, the first weight that would be too much raises ValueError before it is filled."""
    nbytes, most = 0, memory()

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal nbytes
        if parameter is not None and not is_lazy(parameter):  # a lazy one has no size before the first input
            nbytes += COPIES * parameter.nbytes
        if nbytes > most:
            needs = f"would take {in_bytes(nbytes)} or more, and this machine has {in_bytes(most)}"
            raise ValueError(f"model: {needs}; choose fewer or smaller layers")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if any(word in str(error).lower() for word in ("allocate", "overflow", "bad_alloc")):
            raise ValueError("model: larger than the memory; choose fewer or smaller layers") from None
        raise
    finally:
        hook.remove()


def rehearse(model: nn.Module, data: "DataModule", batch_size: int) -> None:
    """Run forward passes, as in training and in evaluation, on the meta device. There is no arithmetic, but every layer
    checks the shape of its input. So a norm that cannot work at this batch size says so before training.

    Raises ValueError with one line.
    """
    x, y = data.probe_batch(1)
    shape = (batch_size, *data.input_shape)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            inputs = torch.empty(shape, device="meta", dtype=x.dtype)
            logits = _passes(copy.deepcopy(model).to("meta"), inputs)
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            # A layer reads a value. BatchNorm does so to see whether it is frozen.
            inputs = torch.zeros(shape, dtype=x.dtype)
            logits = _passes(copy.deepcopy(model), inputs)
    if inputs._version:  # how often something was written into it, in training or in evaluation
        raise ValueError(
            "model: writes into its inputs, so the next evaluation or measurement would see other data; let its first "
            "layer work on a copy, as `x = x - 0.5` does and `x -= 0.5` does not"
        )
    wanted = (batch_size, *y.shape[1:], data.num_classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"model: gives {got} for a batch of {shape}; must give logits of {wanted}")


def _passes(network: nn.Module, inputs: Tensor) -> Any:
    """The result of a pass in training. If some layer is neither torch's nor this project's, a pass in evaluation
    follows."""
    logits = network(inputs)
    if not all(type(layer).__module__.startswith(KNOWN) for layer in network.modules()):
        network.eval()(inputs)
    return logits
