"""One training pass, watched: what every norm gets and gives, and which parameters get a gradient."""

import contextlib
import functools
import math
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.checkpoint import CheckpointFunction

from normexp.check.inputs import root_of
from normexp.check.norm_sites import OTHERWISE, NormSite, heard_norm
from normexp.check.result import NotChecked
from normexp.config.errors import why
from normexp.models.sites import Site, sites_of
from normexp.monitors.guard import NoLoss, gradients_or_none, step_output
from normexp.monitors.listen import listen
from normexp.monitors.sites import channel_axis, first_tensor, in_vmap
from normexp.norms.layers.running import states_of

IN_VMAP = "runs a norm inside vmap, where no number can be read"
NESTED = "gets a nested tensor, whose numbers are not read; pass padded ones, and mask="
TINY = 1e-30  # stands for a variance of 0, where a ratio or a logarithm is taken


@dataclass(eq=False)
class Call:
    """One call of a norm in the training pass.

    Attributes:
        mean, var: of each statistic (correction 0), before the layer adds eps, (statistics,); empty if what the norm
            computes is not understood, or takes no statistic.
        values: how many values enter one statistic.
        largest: largest absolute value that arrives.
        x: what arrived; shares its memory with the pass.
        given: what the layer was called with, by position or name, and under which of them x stands.
        gives: type of what left; None if the pass did not come so far.
        finite: whether all that left is.
        before: path of the layer whose output arrived unchanged.
        channels: axis of the channels by the layers before, counted from the end; None if nobody knows.
        training: the mode of the layer in the pass.
        learns: whether gradients were recorded.
        autocast: whether autocast was on.
        reentrant: whether it ran without gradients inside a reentrant checkpoint.
    """

    norm: NormSite
    mean: Tensor
    var: Tensor
    values: int
    largest: float
    x: Tensor
    given: tuple[dict[int | str, Any], int | str]
    training: bool
    learns: bool
    autocast: bool
    reentrant: bool
    gives: torch.dtype | None = None
    finite: bool = True
    before: str = ""
    channels: int | None = None

    @property
    def understood(self) -> bool:
        """Whether it has statistics that were measured."""
        return self.values > 0

    @property
    def spread(self) -> Tensor:
        """What eps is added to: the variance, or for layers that do not center the mean square, (statistics,)."""
        return self.var if self.norm.centers else self.var + self.mean.square()

    @property
    def masked(self) -> bool:
        """Whether the layer was told what is padding."""
        return any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in self.given[0].values())

    def again(self, module: nn.Module, x: Tensor) -> Any:
        """What a module gives for x in place of what arrived."""
        given = self.given[0] | {self.given[1]: x}
        by_position = [value for key, value in given.items() if isinstance(key, int)]
        return module.forward(*by_position, **{key: v for key, v in given.items() if isinstance(key, str)})


@dataclass
class Trace:
    """What one training pass showed.

    Attributes:
        loss_by: how the loss was computed, in words; PROBE if it is none.
        skipped: whether the step gave no loss.
        random: whether the step drew random numbers, as dropout does; told with `hear`.
        gradients: name -> norm of the gradient of each trained parameter; None where there is none.
        heard: norms that are called as functions, or that run and are not held.
        inside: path of the norm in which the pass failed.
        changed: path -> names of tensors that layers of one's own changed, and that are no known running statistics;
            told with `hear`.
        hidden: path -> why a norm could not be watched.
    """

    loss: float = float("nan")
    loss_by: str = ""
    skipped: bool = False
    random: bool = False
    calls: list[Call] = field(default_factory=list)
    gradients: dict[str, float | None] = field(default_factory=dict)
    heard: list[NormSite] = field(default_factory=list)
    error: Exception | None = None
    inside: str = ""
    changed: dict[str, list[str]] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)

    def learning(self) -> dict[str, float | None]:
        """`gradients`, where they can tell something of single layers. Raises NotChecked where no parameter is trained,
        or the loss gives none of them a gradient, gradients of 0 alone, or one that is no number."""
        sizes = [size for size in self.gradients.values() if size is not None]
        if not self.gradients:
            raise NotChecked("no parameter is trained")
        gives = {
            "no gradient": not sizes,
            "gradients of 0": not any(sizes),
            "gradients that are no numbers": not all(map(math.isfinite, sizes)),
        }
        if how := next((fault for fault, true in gives.items() if true), ""):
            raise NotChecked(f"pass another loss= or other batches: this loss gives parameters {how}")
        return self.gradients


def trace(step: nn.Module, batch: Any, norms: list[NormSite], *, hear: bool = False) -> Trace:
    """Run one training pass, forward and backward, on the module as it is: call it in `Network.quiet`. `hear` also
    finds norms that are no layers of it.

    An error of the pass is part of the result, with the norm in which it came.
    """
    seen, of_module = Trace(), {norm.module: norm for norm in norms}
    paths = {module: path for path, module in root_of(step).named_modules()} if hear else {}
    # id of an output -> itself, how often it was written into, and the path of its innermost layer
    left: dict[int, tuple[weakref.ref, int, str]] = {}
    begun: list[Call] = []

    def enter(norm: NormSite, args: tuple, kwargs: dict) -> None:
        x, seen.inside = first_tensor(args, kwargs), norm.path
        norm = norm.called_with(any(v is not x and v is not None for v in (*args, *kwargs.values())))
        if x is None or not x.numel() or norm.kind == "none":
            return
        with watching(seen, norm, x):
            call = measured(norm, x, args, kwargs)
            call.before, call.channels = maker(x), channel_axis(x)
            seen.calls.append(call)
            begun.append(call)

    def leave(norm: NormSite, output: Any) -> None:
        seen.inside = ""
        if begun and begun[-1].norm == norm and isinstance(output, Tensor):
            call = begun.pop()
            with watching(seen, norm, output):
                call.gives, call.finite = output.dtype, bool(output.detach().isfinite().all())
                if call.understood and not call.norm.explains(call.x, output):
                    call.norm, call.values = call.norm.not_understood(OTHERWISE), 0

    def maker(x: Tensor) -> str:
        made = left.get(id(x))
        return made[2] if made is not None and made[0]() is x and made[1] == writes(x) else ""

    def made(module: nn.Module, _: tuple, output: Any) -> None:
        if isinstance(output, Tensor) and module in paths and not maker(output):
            left[id(output)] = weakref.ref(output), writes(output), paths[module]

    def inside(path: str) -> str:
        """A path of the step as one of the network."""
        return path if step is root_of(step) else path.removeprefix("model").lstrip(".")

    def heard(site: Site, x: Tensor) -> Callable[[Tensor], None] | None:
        if site.kind != "norm" or (norm := heard_norm(site.module, inside(handle.path), x, step)) is None:
            return None
        seen.heard.append(norm)
        enter(norm, (x,), {})
        return lambda output: leave(norm, output)

    handles: list[Any] = []
    for module, norm in of_module.items():
        handles.append(
            module.register_forward_pre_hook(
                lambda _, args, kwargs, norm=norm: enter(norm, args, kwargs), with_kwargs=True
            )
        )
        handles.append(module.register_forward_hook(lambda *both, norm=norm: leave(norm, both[-1])))
    if hear:
        step.__dict__["training_step"] = watched(step, seen, norms)
        handle = listen(step, [site for site in sites_of(step) if site.kind == "norm"], heard)
        handles += [handle, register_module_forward_hook(made)]
    try:
        loss = step_output(step, batch)["loss"]
        seen.loss = float(loss.detach())
        for each in handles:
            each.remove()  # a checkpointed part is computed again, and not seen again
        trained = {name: p for name, p in root_of(step).named_parameters() if p.requires_grad}
        some = loss.requires_grad and trained
        gradients = gradients_or_none(loss, list(trained.values())) if some else [None] * len(trained)
        seen.gradients = {
            name: None if g is None else float(g.norm()) for name, g in zip(trained, gradients, strict=True)
        }
    except NoLoss:  # Lightning allows it
        seen.skipped = True
    except Exception as error:  # any error of a user's network is what we report
        seen.error = error
    finally:
        for each in handles:
            each.remove()
    if hear:
        of_norms = (path for path, site in handle.hidden.items() if site.kind == "norm")
        seen.hidden |= {inside(path) or "the network": IN_VMAP for path in of_norms}
    return seen


@contextlib.contextmanager
def watching(seen: Trace, norm: NormSite, x: Tensor) -> Iterator[None]:
    """Here an error is ours, not the network's: the norm is hidden, and the pass goes on."""
    try:
        yield
    except Exception as error:
        reason = NESTED if x.is_nested else f"cannot be watched: {why(error)}"
        seen.hidden[norm.path] = IN_VMAP if in_vmap(x) else reason


def writes(x: Tensor) -> int:
    """How often a tensor was written into; 0 if torch does not count."""
    return 0 if x.is_inference() else x._version


def watched(step: Any, seen: Trace, norms: list[NormSite]) -> Callable[..., Any]:
    """The step, which also notes whether it drew random numbers, and what else it changed."""
    original, known = step.training_step, {norm.module for norm in norms if norm.tracked}
    layers = {p: m for p, m in root_of(step).named_modules() if m not in known and not of_library(m)}

    def states() -> Any:
        cuda = next(root_of(step).parameters()).is_cuda
        return torch.get_rng_state(), torch.cuda.get_rng_state() if cuda else torch.empty(0)

    @functools.wraps(original)
    def training_step(*args: Any, **kwargs: Any) -> Any:
        before = states()
        held = {(path, name): x.clone() for path, m in layers.items() for name, x in states_of(m).items()}
        output = original(*args, **kwargs)
        seen.random = not all(map(torch.equal, before, states()))
        for (path, name), x in held.items():
            now = states_of(layers[path]).get(name)
            if now is not None and now.shape == x.shape and not torch.equal(now, x):
                seen.changed.setdefault(path, []).append(name)
        return output

    return training_step


def of_library(module: nn.Module) -> bool:
    """Whether a layer is torch's or this project's, which says itself what it keeps."""
    return type(module).__module__.startswith("torch.") or hasattr(module, "batch_statistics")


def measured(norm: NormSite, x: Tensor, args: tuple, kwargs: dict) -> Call:
    """What a call of a norm with x shows."""
    given = dict(enumerate(args)) | kwargs
    key_of_x = next(key for key, value in given.items() if value is x)
    detached = {k: value.detach() if isinstance(value, Tensor) else value for k, value in given.items()}
    mean = var = x.new_empty(0)
    values = 0
    if norm.kind != "unknown" and x.is_floating_point():
        rows = norm.groups(x)  # without gradients
        mean, values = rows.mean(1), rows.shape[1]
        var = rows.var(1, correction=0) if values > 1 else torch.zeros_like(mean)
    return Call(
        norm, mean, var, values, largest=float(x.detach().abs().amax()), x=x.detach(), given=(detached, key_of_x),
        training=norm.module.training, learns=torch.is_grad_enabled(),
        autocast=torch.is_autocast_enabled(x.device.type), reentrant=in_reentrant_checkpoint(),
    )  # fmt: skip


def in_reentrant_checkpoint() -> bool:
    """Whether a reentrant checkpoint is running its part of the forward pass, which it does without gradients."""
    frame = None if torch.is_grad_enabled() else sys._getframe()
    while frame is not None and frame.f_code is not CheckpointFunction.forward.__code__:
        frame = frame.f_back
    return frame is not None
