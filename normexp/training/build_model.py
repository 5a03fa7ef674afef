"""A model with its initial weights, and a run's parts tried before its first step: a mistake, a lack of memory or of
hardware is one line, and nothing is written. Imports no Lightning: laws build models too."""

import contextlib
import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from normexp.config.construct import construct, refused
from normexp.machine import in_bytes, memory

if TYPE_CHECKING:
    from pytorch_lightning import Trainer

    from normexp.data.base import DataModule
    from normexp.lit_model import LitModel

KNOWN = ("torch.", "normexp.")  # layers that write into no input, and keep what they need in checkpoints
SMALL_BYTES, SMALL_TENSORS = 2**28, 2000  # a model below both is built without a check
MOST_TENSORS = 50_000  # takes a minute to build; a network of 10,000 layers has some 40,000
COPIES = 3  # weights, gradients, and at least as much for the optimizer


class ModelSizes(Protocol):
    """The sizes that a model needs to know of the data."""

    @property
    def input_shape(self) -> tuple[int, ...]: ...

    @property
    def num_classes(self) -> int: ...


def build_model(
    config: dict[str, Any], data: ModelSizes, allowed: Iterable[str] | None = None
) -> torch.nn.Module:
    """The model with its initial weights. Outside the norms, the weights depend on the seed and not on the norm."""
    make, norm = (construct(group, config[group], allowed) for group in ("model", "norm"))

    def seeded() -> torch.nn.Module:
        torch.manual_seed(config["seed"])
        return make(input_shape=data.input_shape, num_classes=data.num_classes, norm=norm)

    with refused("model", make.func.__name__):
        return build_within_memory(seeded, config["model"])


class _TooLarge(Exception):
    def __init__(self, tensors: int, nbytes: int):
        super().__init__()
        self.tensors, self.nbytes = tensors, nbytes


def build_within_memory(make: Callable[[], nn.Module], options: dict[str, Any]) -> nn.Module:
    """The model that `make` builds. A model that is not small is first built on the meta device, where tensors have
    shapes but no content. This stops as soon as the model is known to be too large.

    Args:
        make: builds the same model at each call, whatever random numbers were drawn before.
        options: of the model, for messages.

    Raises ValueError with one line for a model that memory cannot hold or that would take minutes to build.
    """
    with contextlib.suppress(_TooLarge), _at_most(SMALL_TENSORS, SMALL_BYTES):
        return make()
    most = memory()
    try:
        with torch.device("meta"), warnings.catch_warnings(), _at_most(MOST_TENSORS, most // COPIES):
            warnings.simplefilter("ignore")
            make()
    except _TooLarge as large:
        why = f"would take {in_bytes(COPIES * large.nbytes)} or more, and this machine has {in_bytes(most)}"
        if large.tensors > MOST_TENSORS:
            why = f"has more than {MOST_TENSORS:,} weight tensors and would take minutes to build"
        raise ValueError(f"{_largest(options)}: {why}; choose fewer or smaller layers") from None
    except RuntimeError as error:
        if "overflow" in str(error).lower():
            raise ValueError(f"{_largest(options)}: larger than any memory; choose smaller layers") from None
        # Otherwise it is a user's model that computes while it is built. Then only building it shows its size.
    return make()


@contextlib.contextmanager
def _at_most(tensors: int, nbytes: int) -> Iterator[None]:
    """Inside this context, a module with more weights than that raises _TooLarge before they are filled."""
    seen = [0, 0]

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not is_lazy(parameter):  # a lazy one has no size before the first input
            seen[0] += 1
            seen[1] += parameter.numel() * parameter.element_size()
            if seen[0] > tensors or seen[1] > nbytes:
                raise _TooLarge(*seen)

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    except RuntimeError as error:  # no tensor can have this size
        if tensors == SMALL_TENSORS and any(word in str(error) for word in ("allocate", "overflow")):
            raise _TooLarge(*seen) from None
        raise
    finally:
        hook.remove()


def _largest(options: dict[str, Any]) -> str:
    """The two options that make the model large, as overrides."""
    sizes = {}
    for key, value in options.items():
        numbers = [item for item in (value if isinstance(value, list) else [value]) if type(item) is int]
        if numbers:
            sizes[key] = max(numbers)
    named = sorted(sizes, key=lambda key: -sizes[key])[:2]
    return " ".join(f"model.{key}={options[key]}".replace(", ", ",") for key in named) or "model"


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


def rehearse_optimizer(module: "LitModel", *, fused: bool) -> None:
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


def check_trainer(
    make_trainer: "Callable[..., Trainer]", config: dict[str, Any], choices: dict[str, str]
) -> None:
    """Raise a ValueError of one line for the first mistake. Makes the trainer, so Lightning looks for the hardware."""
    try:
        world_size = make_trainer(
            logger=False, enable_checkpointing=False, enable_progress_bar=False
        ).world_size
    except Exception as error:  # Lightning and its plugins raise a dozen types
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"trainer={choices['trainer']}: {reason}; choose trainer=auto or trainer=cpu"
        ) from None
    if config["batch_size"] % world_size:
        raise ValueError(
            f"batch_size={config['batch_size']}: cannot be shared equally by {world_size} devices; "
            f"choose a multiple of {world_size}"
        )
