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

KNOWN = ("torch.", "normexp.")  # layers that write into no input, and keep what they need in checkpoints
COPIES = 3  # weights, gradients, and at least as much for the optimizer


def build_model(config: dict[str, Any], data: Any, allowed: Iterable[str] | None = None) -> nn.Module:
    """The model with its initial weights, for data of this `input_shape` and `num_classes`. Outside the norms, the
    weights depend on the seed and not on the norm.

    Raises ValueError with one line, also for a model that memory cannot hold or that would take minutes to build.
    """
    make, norm = (construct(group, config[group], allowed) for group in ("model", "norm"))
    with refused("model", make.func.__name__), _within_memory(config["model"]):
        torch.manual_seed(config["seed"])
        return make(input_shape=data.input_shape, num_classes=data.num_classes, norm=norm)


@contextlib.contextmanager
def _within_memory(options: dict[str, Any]) -> Iterator[None]:
    """Inside this context, the first weight that would be too much raises ValueError before it is filled."""
    nbytes, most = 0, memory()

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal nbytes
        if parameter is not None and not is_lazy(parameter):  # a lazy one has no size before the first input
            nbytes += COPIES * parameter.nbytes
        if nbytes > most:
            needs = f"would take {in_bytes(nbytes)} or more, and this machine has {in_bytes(most)}"
            raise ValueError(_too_large(options, needs))

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if any(word in str(error).lower() for word in ("allocate", "overflow", "bad_alloc")):
            raise ValueError(_too_large(options, "larger than the memory")) from None
        raise
    finally:
        hook.remove()


def _too_large(options: dict[str, Any], why: str) -> str:
    """The message, with the two options that make the model large as overrides."""
    lists = {key: value if isinstance(value, list) else [value] for key, value in options.items()}
    sizes = {
        key: max((item for item in items if type(item) is int), default=0) for key, items in lists.items()
    }
    named = sorted(filter(sizes.get, sizes), key=lambda key: -sizes[key])[:2]
    names = " ".join(f"model.{key}={options[key]}".replace(", ", ",") for key in named) or "model"
    return f"{names}: {why}; choose fewer or smaller layers"


def rehearse(model: nn.Module, data: "DataModule", batch_size: int) -> None:
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
    """(result, bytes that the innermost layers give) of a pass in training. If some layer is neither torch's nor this
    project's, a pass in evaluation follows."""
    nbytes = 0

    def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
        nonlocal nbytes
        if isinstance(output, Tensor) and not any(module.children()):
            nbytes += output.numel() * output.element_size()

    hooks = [module.register_forward_hook(add) for module in network.modules()]
    logits = network(inputs)
    for hook in hooks:
        hook.remove()
    if all(type(layer).__module__.startswith(KNOWN) for layer in network.modules()):
        return logits, nbytes
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
    return logits, nbytes
