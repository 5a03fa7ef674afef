"""The places where monitors measure: those that a model names, or those found in a user's own module.

Activations that a network calls as functions, `F.relu(x)`, `torch.tanh(x)`, `x.sigmoid()`, are no modules, so no hook
sees them. On measured steps, torch passes every call of a function to a `TorchFunctionMode`, which calls it unchanged:
values, gradients and random numbers stay the same bits.
"""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from normexp.models.sites import LINEAR_MAPS, WHOLE, Site
from normexp.monitors.guard import guard_depth
from normexp.norms.layers import is_norm

CHANNELS_FIRST = {"num_features", "num_groups", "size"}  # of torch's batch, instance, group, response norms


def first_tensor(args: tuple, kwargs: dict) -> Tensor | None:
    """What a module was called with, by position or by name; None where that is no tensor of numbers."""
    return next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)


def to_rows(x: Tensor, channel_dim: int) -> Tensor:
    """(N, C, ...) or (N, T, C) -> (n, C)."""
    x = x.detach()
    if not x.is_floating_point() or x.element_size() < 4:
        x = x.float()
    return x.movedim(channel_dim, -1).flatten(0, -2)


def wide(x: Tensor) -> Tensor:
    """x in float64, if the device has it."""
    return x.float() if x.device.type == "mps" else x.double()


def layer_weights(sites: list[Site], kind: str = "linear") -> dict[str, list[nn.Parameter]]:
    """Trained parameters of each linear map, or place of another kind, by layer; a shared one belongs to its first
    layer."""
    seen: set[nn.Parameter] = set()
    weights: dict[str, list[nn.Parameter]] = {}
    for site in sites:
        if site.kind == kind:
            own = [p for p in site.module.parameters() if p.requires_grad and p not in seen]
            seen.update(own)
            if own:
                weights[site.layer] = own
    return weights


def noise_before(sites: list[Site]) -> dict[str, list[nn.Module]]:
    """For the layer of each linear map, the norms before it that draw new noise at each step (`next_noise`)."""
    passed: list[nn.Module] = []
    before = {}
    for site in sites:
        if site.kind == "linear":
            before[site.layer] = list(passed)
        if hasattr(site.module, "next_noise"):
            passed.append(site.module)
    return before


def weights_before(module: nn.Module, sites: list[Site]) -> dict[str, list[nn.Parameter]]:
    """For the layer of each linear map, the trained parameters before it. These are the parameters of earlier sites,
    such as a norm's gain, and those of no site, such as embeddings, which stand at the input."""
    of_sites = {p for site in sites if site.kind != "embedding" for p in site.module.parameters()}
    passed = dict.fromkeys(p for p in module.parameters() if p.requires_grad and p not in of_sites)
    before = {}
    for site in sites:
        if site.kind == "linear":
            before[site.layer] = list(passed)
        passed |= dict.fromkeys(p for p in site.module.parameters() if p.requires_grad)
    return before


def channel_dim(module: nn.Module, ndim: int) -> int:
    """The channel axis of a site's tensors: that of the norm, else 1 for (N, C) and (N, C, H, W), -1 for (N, T, C)."""
    if hasattr(module, "channel_dim"):
        return module.channel_dim
    if isinstance(module, (nn.Linear, nn.Bilinear, *WHOLE)):
        return -1
    if isinstance(module, LINEAR_MAPS) or CHANNELS_FIRST & module.__dict__.keys():
        return 1
    if is_norm(module) and not (ndim == 4 and type(module).__name__.endswith("2d")):  # as LayerNorm2d's
        return -1
    return -1 if ndim == 3 else 1


FUNCTIONS: dict[Callable, str] = {
    getattr(owner, name): name.rstrip("_")
    for owner in (F, torch, Tensor)
    for name in (
        "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "prelu", "elu", "elu_", "selu", "selu_", "celu", "celu_",
        "gelu", "silu", "mish", "sigmoid", "sigmoid_", "logsigmoid", "tanh", "tanh_", "softplus", "softsign",
        "hardtanh", "hardtanh_", "hardswish", "hardsigmoid",
    )
    if hasattr(owner, name)
}  # fmt: skip
BOUNDS = {
    "sigmoid": (0.0, 1.0), "hardsigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "softsign": (-1.0, 1.0), "relu6": (0.0, 6.0),
}  # fmt: skip

# Called with the site and the input before the function runs. Its result is called with the output.
Listener = Callable[[Site, Tensor], Callable[[Tensor], None] | None]


_deaf: list[None] = []


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Inside this context no listener hears of called functions, because monitors call some themselves."""
    _deaf.append(None)
    try:
        yield
    finally:
        _deaf.pop()


class CalledFunction(nn.Module):
    """One call of an activation as a module: its function with its options."""

    def __init__(self, function: Callable, name: str, args: tuple, kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.function, self.args = function, args
        self.kwargs = {k: v for k, v in kwargs.items() if k != "input"}
        self.bounds = BOUNDS.get(name)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.args, **self.kwargs)


_listening: "weakref.WeakKeyDictionary[nn.Module, list[Listening]]" = weakref.WeakKeyDictionary()


class Listening:
    """Hears the activations that the training steps of a module call, for one monitor. A handle, as hooks have:
    `remove()` ends it."""

    def __init__(self, module: nn.Module, sites: Sequence[Site], listener: Listener) -> None:
        self.module, self.depth, self.listener = module, guard_depth(), listener
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.inside = 0  # number of open modules that are activations themselves
        self.last = f"layer{'0' * len(str(max(10, len(sites) - 1)))}"
        self.heard: set[str] = set()
        for site in sites:
            own = site.module
            if site.kind == "activation":
                self.handles.append(own.register_forward_pre_hook(lambda *_: self._enter(1)))
                self.handles.append(own.register_forward_hook(lambda *_: self._enter(-1), always_call=True))
            else:
                self.handles.append(own.register_forward_pre_hook(functools.partial(self._met, site.layer)))

    def _enter(self, step: int) -> None:
        self.inside += step

    def _met(self, layer: str, *_: Any) -> None:
        self.last = layer

    def called(self, name: str, function: Callable, args: tuple, kwargs: dict) -> Callable | None:
        x = args[0] if args else kwargs.get("input")
        if (
            self.inside
            or guard_depth() != self.depth
            or not isinstance(x, Tensor)
            or not x.is_floating_point()
        ):
            return None
        layer = f"{self.last}_{name}"
        if layer in self.heard:  # used several times, measured at its first use
            return None
        self.heard.add(layer)
        return self.listener(Site(layer, "activation", CalledFunction(function, name, args[1:], kwargs)), x)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        others = _listening.get(self.module, [])
        if self in others:
            others.remove(self)
            if not others:
                self.module.__dict__.pop("training_step", None)


class _Mode(TorchFunctionMode):
    def __init__(self, listening: Sequence[Listening]) -> None:
        super().__init__()
        self.listening = listening

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = FUNCTIONS.get(func)
        if name is None or _deaf:
            return func(*args, **kwargs)
        after = [one.called(name, func, args, kwargs) for one in self.listening]
        output = func(*args, **kwargs)
        for heard in after:
            if heard is not None:
                heard(output)
        return output


def listen(module: nn.Module, sites: Sequence[Site], listener: Listener) -> Listening:
    """Call `listener` for each activation that `module.training_step` calls as a function, in order, until the handle
    is removed. A site is named after the layer that ran before it: `layer03_conv2_relu`."""
    handle = Listening(module, sites, listener)
    all_of = _listening.setdefault(module, [])
    all_of.append(handle)
    if len(all_of) == 1:
        original = module.training_step

        @functools.wraps(original)
        def training_step(*args: Any, **kwargs: Any) -> Any:
            with _Mode(all_of):
                return original(*args, **kwargs)

        module.__dict__["training_step"] = training_step
    return handle
