"""Extra passes through a module. They change no random state, parameter, buffer, mode, attribute or `.grad`."""

import contextlib
import copy
import inspect
import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from normexp.format import require_object

RANDOM = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
COPIED = (Tensor, dict, list, deque, tuple, set, *RANDOM)
SHARDED = ("FSDPModule", "FullyShardedDataParallel")

_guarded: list[nn.Module] = []
_precision: list[Any] = []  # Lightning's precision plugins in which passes run


def guard_depth() -> int:
    """Number of open guards. A hook on the training pass compares it, to ignore extra passes."""
    return len(_guarded)


@contextlib.contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """In this context every submodule works on a copy of its attributes: modes, buffers, counters, hooks, `self.log`.

    Parameters are copied by each pass (`step_output`). To change them, use `weights`. For gradients use
    `torch.autograd.grad`, which does not touch `.grad`.
    """
    require_passes(module)
    originals = [(child, dict(child.__dict__)) for child in module.modules()]
    outside = [(values, dict(values)) for values in _schedules(module)]
    made: dict[int, Any] = {}
    _guarded.append(module)
    try:
        for child, original in originals:
            child.__dict__.update({name: _own(value, made) for name, value in original.items()})
        module.__dict__.update(log=_silent, log_dict=_silent)
        with torch.enable_grad(), _eager(module):
            yield
    finally:
        _guarded.pop()
        for child, original in originals:
            child.__dict__.clear()
            child.__dict__.update(original)
        for values, original in outside:
            values.clear()
            values.update(original)


def require_network(argument: str, value: Any) -> None:
    """Raise a ValueError with one line unless a value is a module."""
    require_object(argument, value)
    if not isinstance(value, nn.Module):
        raise ValueError(
            f"{argument}={type(value).__name__}: is no module; pass a network or a LightningModule"
        )


def require_passes(module: nn.Module) -> None:
    """Raise a ValueError with one line where no pass of ours can be made."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise ValueError(
            "the network runs inside torch.func, where no other pass can be made; measure it outside"
        )
    fsdp = sys.modules.get("torch.distributed.fsdp")  # its import takes a second
    kinds = tuple(vars(fsdp)[name] for name in SHARDED if name in vars(fsdp)) if fsdp else ()
    if any(isinstance(child, kinds) for child in module.modules()):
        raise ValueError(
            "FSDP moves the weights itself, so no other pass can be made; measure the network before"
        )


LAZY = "has lazy layers without a size; call the network once with a batch"


def is_lazy(module: nn.Module) -> bool:
    """Whether a layer waits for its first input, from which it takes its size."""
    lazy = (layer for layer in module.modules() if isinstance(layer, LazyModuleMixin))
    return any(layer.has_uninitialized_params() for layer in lazy)


def _schedules(module: nn.Module) -> list[dict]:
    """What a step changes that moves a schedule of its trainer on by itself."""
    trainer = getattr(module, "_trainer", None)
    optimizers = getattr(trainer, "optimizers", ())
    schedules = [vars(config.scheduler) for config in getattr(trainer, "lr_scheduler_configs", ())]
    return schedules + [group for optimizer in optimizers for group in optimizer.param_groups]


@contextlib.contextmanager
def same_random() -> Iterator[None]:
    """Afterwards all random numbers are those that would have come without this context, also behind an error."""
    error: BaseException | None = None
    with isolate_rng():
        try:
            yield
        except BaseException as raised:
            error = raised
    if error is not None:
        raise error


class NoLoss(ValueError):
    """A batch that the training step skips."""


class NoTarget(ValueError):
    """A user's loss= needs the targets, and the batch has none."""


class WrongLoss(ValueError):
    """A user's loss= gives something else than one number."""


def _own(value: Any, made: dict[int, Any]) -> Any:
    """A copy of the tensors and containers in a value. `made` holds the copies, by the id of what they copy, so that a
    tensor of two places, such as a buffer of two layers, stays one.

    What refuses to be copied, as a frozen configuration does, is left as it is: it refuses to be changed, too."""
    if id(value) not in made:
        try:
            made[id(value)] = _copied(value, made)
        except Exception:  # a class of the user's may raise anything
            made[id(value)] = value
    return made[id(value)]


def _copied(value: Any, made: dict[int, Any]) -> Any:
    if isinstance(value, Tensor):
        return value if isinstance(value, nn.Parameter) else value.detach().clone()
    if isinstance(
        value, (dict, list, deque)
    ):  # a module holds buffers, parameters, submodules and hooks in these
        duplicate = made[id(value)] = copy.copy(value)  # noted first: it may hold itself
        for key, item in list(dict.items(value) if isinstance(value, dict) else enumerate(value)):
            if isinstance(item, COPIED) and (copied := _own(item, made)) is not item:
                duplicate[key] = copied
        return duplicate
    if type(value) is tuple:
        return tuple(_own(item, made) for item in value)
    if isinstance(value, RANDOM):
        return copy.deepcopy(value)
    return copy.copy(value) if isinstance(value, set) else value


def _silent(*args: Any, **kwargs: Any) -> None:
    pass


def is_compiled(module: nn.Module) -> bool:
    """Whether a module was compiled: by `torch.compile(module)`, by `module.compile()`, or by Lightning."""
    marks = ("_orig_mod", "_compiled_call_impl", "_compiler_ctx")
    return any(getattr(child, mark, None) is not None for child in module.modules() for mark in marks)


def _eager(module: nn.Module) -> contextlib.AbstractContextManager:
    # Compiled code runs no hooks that were added later. Ask only if needed, because this imports the whole compiler.
    return torch.compiler.set_stance("force_eager") if is_compiled(module) else contextlib.nullcontext()


def run_eagerly(module: nn.Module, measured: bool) -> None:
    """Compiled code never runs hooks that were attached after compilation, so a compiled module runs measured steps
    uncompiled."""
    if is_compiled(module):
        torch.compiler.set_stance("force_eager" if measured else "default")


@contextlib.contextmanager
def passes_as_in(trainer: Any) -> Iterator[None]:
    """In this context passes run in the trainer's precision, e.g. autocast. Computations on their results do not."""
    _precision.append(trainer.precision_plugin)
    try:
        yield
    finally:
        _precision.pop()


def step_output(module: nn.Module, batch: Any) -> dict[str, Any]:
    """The result of `training_step` for a batch, with key `loss`. Every call starts with the parameters, buffers and
    random state that training will use next, and leaves them and the batch as they are, whatever the step writes.

    Raises NoLoss if the step skips the batch, and ValueError if the batch cannot be copied, or if the step takes
    gradients itself where none are recorded, as MAML and a gradient penalty do. Call it in `untouched`."""
    batch = copied_batch(batch)
    kinds = [parameter.kind for parameter in inspect.signature(module.training_step).parameters.values()]
    count = 2 if inspect.Parameter.VAR_POSITIONAL in kinds else len(kinds)
    precision = _precision[-1].train_step_context() if _precision else contextlib.nullcontext()
    with same_random(), own_buffers(module), _own_parameters(module), precision:
        try:
            output = module.training_step(*(batch, 0)[:count])
        except RuntimeError as error:
            if torch.is_grad_enabled() or "does not require grad" not in str(error):
                raise
            raise ValueError(
                "the step takes gradients itself, and this measure passes without them; leave it out"
            ) from error
    output = output if isinstance(output, Mapping) else {"loss": output}
    if not isinstance(output.get("loss"), Tensor):
        raise NoLoss("training_step gives no loss for a batch, which is not measured")
    return output


def copied_batch(batch: Any) -> Any:
    """A copy of a batch, of whatever class, that a step may write into.

    Raises ValueError if it is an iterator, from which nothing can be taken twice."""
    if isinstance(batch, Tensor):
        return batch.clone()
    if type(batch) in (list, tuple):
        return type(batch)(copied_batch(item) for item in batch)
    if type(batch) is dict:
        return {key: copied_batch(item) for key, item in batch.items()}
    if isinstance(batch, Iterator):
        raise ValueError(f"the batch is an iterator, {type(batch).__name__}: it cannot be passed twice")
    return copy.deepcopy(batch)


@contextlib.contextmanager
def own_buffers(module: nn.Module) -> Iterator[None]:
    """In this context a module works on copies of its buffers. They are not restored later, since autograd keeps the
    tensors that a pass used."""
    originals = [(child._buffers, dict(child._buffers)) for child in module.modules() if child._buffers]
    # A buffer of two layers stays one.
    clones = {id(b): b.clone() for buffers, _ in originals for b in buffers.values() if b is not None}
    for buffers, original in originals:
        buffers.update({name: clones[id(buffer)] for name, buffer in original.items() if buffer is not None})
    try:
        yield
    finally:
        for buffers, original in originals:
            buffers.update(original)


@contextlib.contextmanager
def _own_parameters(module: nn.Module) -> Iterator[None]:
    """In this context a step that writes into its parameters, as `nn.Embedding(max_norm=1)`, a codebook and momentum
    contrast do, writes into copies; and one that calls `backward` itself leaves `.grad` alone."""
    gradients = [(p, p.grad) for p in module.parameters()]
    for p, _ in gradients:
        p.grad = None
    try:
        with weights({p: p.data.clone() for p, _ in gradients}):
            yield
    finally:
        for p, gradient in gradients:
            p.grad = gradient


def loss_of(module: nn.Module, batch: Any) -> Tensor:
    """The loss of `training_step` for a batch; see `step_output`."""
    return step_output(module, batch)["loss"]


def gradients_of(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Gradient of each parameter, zeros if the loss does not depend on it. `.grad` stays as it is."""
    found = gradients_or_none(loss, parameters)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def reached_gradients(loss: Tensor, parameters: Sequence[nn.Parameter]) -> dict[nn.Parameter, Tensor]:
    """The gradients of those parameters on which the loss depends. `.grad` stays as it is."""
    found = gradients_or_none(loss, parameters)
    return {p: g for p, g in zip(parameters, found, strict=True) if g is not None}


def gradients_or_none(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor | None]:
    """The gradients of the parameters; None where the loss does not depend on one. `.grad` stays as it is."""
    if not has_reentrant(loss) or any(p._post_accumulate_grad_hooks for p in parameters):
        return list(torch.autograd.grad(loss, parameters, allow_unused=True))
    before = [p.grad for p in parameters]
    try:
        for p in parameters:
            p.grad = None
        loss.backward()
        return [p.grad for p in parameters]
    finally:
        for p, gradient in zip(parameters, before, strict=True):
            p.grad = gradient


def has_reentrant(loss: Tensor) -> bool:
    """Whether a loss was computed with reentrant checkpoints. They know only `backward`: `torch.autograd.grad` leaves
    out what is inside them, with an error, or without one where they begin the network."""
    nodes, seen = [loss.grad_fn], set()
    while nodes:
        if (node := nodes.pop()) is not None and node not in seen:
            seen.add(node)
            nodes += [before for before, _ in node.next_functions]
            if "CheckpointFunction" in node.name():
                return True
    return False


def require_whole_tensors(tensors: Sequence[Tensor]) -> None:
    """Raise a ValueError with one line if some are DTensors, as tensor parallelism and FSDP make them."""
    if any(hasattr(x, "device_mesh") for x in tensors):
        raise ValueError(
            "weights are DTensors, split over processes, and their numbers are not read; leave the monitor out"
        )


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All values of several tensors, (P,). Raises ValueError if some are complex or DTensors."""
    require_whole_tensors(tensors)
    if any(x.is_complex() for x in tensors):
        raise ValueError("complex parameters have no such number; leave the monitor out")
    return torch.cat([x.flatten() for x in tensors])


def trained_parameters(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that require a gradient, in the module's order."""
    return [p for p in module.parameters() if p.requires_grad]


@contextlib.contextmanager
def weights(values: dict[nn.Parameter, Tensor]) -> Iterator[None]:
    """Inside this context each parameter holds the given tensor. Afterwards it holds its own memory again."""
    originals = {parameter: parameter.data for parameter in values}
    try:
        for parameter, value in values.items():
            parameter.data = value
        yield
    finally:
        for parameter, original in originals.items():
            parameter.data = original


def to_module(batch: Any, module: nn.Module) -> Any:
    """The batch on the module's device, with floating-point tensors in the module's precision."""
    like = next((p for p in module.parameters() if p.is_floating_point()), None)

    def move(x: Tensor) -> Tensor:
        return x.to(like.device, like.dtype if x.is_floating_point() else x.dtype)

    return batch if like is None else apply_to_collection(batch, Tensor, move, allow_frozen=True)
