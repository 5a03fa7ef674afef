"""What a network runs that no hook of its layers sees: activations and norms that it calls as functions, `F.relu(x)` or
`F.layer_norm(x, ...)`, and norms that it runs but does not hold, in a Python list or made inside `forward`.

While somebody listens, torch passes every call of a function to a `TorchFunctionMode`, which calls it unchanged:
values, gradients and random numbers stay the same bits. Hooks on all modules tell where a call stands.

    def heard(site, x):            # before it runs; site.kind is "activation" or "norm"
        ...
        return lambda output: ...  # after it ran, or None

    handle = listen(module, sites_of(module), heard)
    loss_of(module, batch)         # or a training step
    handle.remove()

`site.module` is a `CalledFunction`, or a norm that `module` does not hold. Inside `heard`, `handle.path` is the dotted
path of the layer that is running.
"""

import contextlib
import functools
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as all_modules
from torch.overrides import TorchFunctionMode

from normexp.models.sites import Site
from normexp.monitors.guard import guard_depth, is_compiled
from normexp.monitors.sites import channel_axis, first_tensor, follow, in_vmap, note
from normexp.norms.layers import is_norm

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
_PLAIN = {  # of functions that F and torch call alike
    "layer_norm": ("normalized_shape", "weight", "bias", "eps"),
    "rms_norm": ("normalized_shape", "weight", "eps"),
    "group_norm": ("num_groups", "weight", "bias", "eps"),
}
_STATISTICS, _AFFINE = ("running_mean", "running_var"), ("weight", "bias")
_USED = {"batch_norm": "training", "instance_norm": "use_input_stats"}
# function -> its name and the names of its arguments behind the input
NORMS: dict[Callable, tuple[str, tuple[str, ...]]] = {
    getattr(owner, name): (name, names) for owner in (F, torch) for name, names in _PLAIN.items()
} | {F.normalize: ("normalize", ("p", "dim", "eps"))}
for _name, _used in _USED.items():
    for _owner, _order in ((F, _STATISTICS + _AFFINE), (torch, _AFFINE + _STATISTICS)):
        NORMS[getattr(_owner, _name)] = (_name, (*_order, _used, "momentum", "eps"))

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
    """One call of an activation or a norm as a module: its function with its options.

    Attributes:
        name: of the function, such as `layer_norm`.
        path: dotted path of the layer that called it; empty for the network itself.
        bounds: of an activation's output, None if it is not bounded on both sides.
        given: of a norm, its arguments by name, such as `normalized_shape`, `num_groups`, `weight`, `running_mean`.
        eps: of a norm.
        channel_dim: of a norm, the axis of its gain; `dim` of `F.normalize`; None where several axes have one.
    """

    def __init__(
        self, function: Callable, name: str, path: str, args: tuple, kwargs: dict[str, Any], x: Tensor
    ):
        super().__init__()
        self.function, self.name, self.path, self.args = function, name, path, args
        self.kwargs = {k: v for k, v in kwargs.items() if k != "input"}
        self.bounds = BOUNDS.get(name)
        if function in NORMS:
            self.given = dict(zip(NORMS[function][1], args, strict=False)) | self.kwargs
            small = 1e-12 if name == "normalize" else torch.finfo(x.dtype).eps if name == "rms_norm" else 1e-5
            eps = self.given.get("eps")
            self.eps = float(small if eps is None else eps)
            self.training = bool(self.given.get("training", True) and self.given.get("use_input_stats", True))
            first = name in ("group_norm", "batch_norm", "instance_norm")
            last = -1 if len(self.given.get("normalized_shape", (0,))) == 1 else None
            dim = self.given.get("dim", 1) if name == "normalize" else last
            self.channel_dim = 1 if first else dim if isinstance(dim, int) else None

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.args, **self.kwargs)


class _Open(NamedTuple):
    """A module that is running. `calls` counts the norms that it called; `inside` is the kind of place that it is."""

    module: nn.Module
    path: str | None  # None for a module that the network does not hold
    calls: Counter
    inside: str | None
    after: list[Callable[[Tensor], None]]


_listening: "weakref.WeakKeyDictionary[nn.Module, list[Listening]]" = weakref.WeakKeyDictionary()


class Listening:
    """Hears what the training steps of a module run, for one monitor. A handle, as hooks have: `remove()` ends it."""

    def __init__(self, module: nn.Module, sites: Sequence[Site], listener: Listener | None) -> None:
        self.module, self.sites, self.depth, self.listener = module, sites, guard_depth(), listener
        self.heard: set[str] = set()
        self.hidden: dict[str, Site] = {}  # path -> what runs there inside vmap, where no number can be read
        self.path = ""

    def called(self, key: str, site: Site, path: str, x: Tensor) -> Callable[[Tensor], None] | None:
        # What is used several times is measured at its first use.
        if self.listener is None or guard_depth() != self.depth or key in self.heard or not x.numel():
            return None
        self.heard.add(key)
        if in_vmap(x):
            self.hidden[path] = site
            return None
        self.path = path
        return self.listener(site, x)

    def remove(self) -> None:
        others = _listening.get(self.module, [])
        if self in others:
            others.remove(self)
            if not others:
                self.module.__dict__.pop("training_step", None)


class _Mode(TorchFunctionMode):
    """Hears one training step. `last` is the name of the last site that ran, before which a function is named."""

    def __init__(self, module: nn.Module, listening: list[Listening], root: nn.Module | None = None) -> None:
        super().__init__()
        self.listening = listening
        self.paths = {child: path for path, child in module.named_modules(remove_duplicate=True)}
        sites = [site for one in listening for site in one.sites]
        self.sites = {site.module: site for site in sites if isinstance(site.module, nn.Module)}
        self.last = f"layer{'0' * len(str(max(10, len(sites) // len(listening) - 1)))}"
        self.open = [_Open(module, self.paths.get(root, ""), Counter(), None, [])]

    def __enter__(self) -> "_Mode":
        self.quiet = contextlib.ExitStack()
        if is_compiled(self.open[0].module):  # torch warns of hooks on all modules
            self.quiet.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Using `torch.compile")
        self.handles = [
            all_modules.register_module_forward_pre_hook(self._enter),
            all_modules.register_module_forward_hook(self._leave, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for handle in self.handles:
            handle.remove()
        self.quiet.close()

    def _enter(self, module: nn.Module, inputs: tuple) -> None:
        around, site = self.open[-1], self.sites.get(module)
        path = self.paths.get(module)
        if path is None and not (list(module.parameters()) or is_norm(module)):
            path = around.path  # as `nn.ReLU()(x)`
        inside, after = around.inside, []
        if site is not None:
            inside = site.kind if site.kind in ("activation", "norm") else inside
            self.last = self.last if site.kind == "activation" else site.layer
        elif path is None and is_norm(module):
            x = first_tensor(inputs, {})
            if around.path is not None and inside is None and x is not None:
                after = self._heard_norm(type(module).__name__, module, x)
            inside = "norm"
        self.open.append(_Open(module, path, Counter(), inside, after))

    def _leave(self, module: nn.Module, inputs: tuple, output: Any) -> None:
        if len(self.open) > 1 and self.open[-1].module is module:
            done = self.open.pop()
            x = first_tensor(inputs, {})
            if done.inside == "norm" and isinstance(output, Tensor) and x is not None and x.ndim > 2:
                # Kernels of its own hide what it did, but no norm moves axes.
                axis = getattr(module, "channel_dim", None) if channel_axis(x) is None else channel_axis(x)
                note(output, axis if channel_axis(output) is None else channel_axis(output))
            for after in done.after:
                after(output)

    def _tell(self, key: str, site: Site, x: Tensor) -> list[Callable[[Tensor], None]]:
        path = self.open[-1].path or ""
        after = [one.called(key, site, path, x) for one in list(self.listening)]
        return [heard for heard in after if heard is not None]

    def _heard_norm(self, name: str, module: nn.Module, x: Tensor) -> list[Callable[[Tensor], None]]:
        """A norm is named after its place, and counted if a layer calls several: `layer03_block_norm_layer_norm2`."""
        here = self.open[-1]
        here.calls[name] += 1
        count = here.calls[name]
        key = "_".join([*(here.path or "").split("."), name]).strip("_") + (str(count) if count > 1 else "")
        return self._tell(key, Site(f"{self.last.split('_')[0]}_{key}", "norm", module), x)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _deaf:
            return func(*args, **kwargs)
        after = self._before(func, args, kwargs) if func in FUNCTIONS or func in NORMS else []
        output = func(*args, **kwargs)
        follow(func, args, kwargs, output)
        for heard in after:
            heard(output)
        return output

    def _before(self, func: Callable, args: tuple, kwargs: dict) -> list[Callable[[Tensor], None]]:
        x, here = args[0] if args else kwargs.get("input"), self.open[-1]
        if here.path is None or not isinstance(x, Tensor) or not x.is_floating_point():
            return []
        if "parametrizations" in here.path.split("."):  # spectral_norm, for one
            return []
        name = FUNCTIONS[func] if func in FUNCTIONS else NORMS[func][0]
        module = CalledFunction(func, name, here.path, args[1:], kwargs, x)
        if func in FUNCTIONS:
            site = Site(f"{self.last}_{name}", "activation", module)
            return [] if here.inside == "activation" else self._tell(site.layer, site, x)
        if name == "normalize" and x.ndim < 2:  # a vector of weights, as of torch.nn.utils.spectral_norm
            return []
        if here.inside is not None or isinstance(x, nn.Parameter) or isinstance(x._base, nn.Parameter):
            return []  # weights that are standardized, or of a unit length, are no norm
        return self._heard_norm(name, module, x)


def hearing(module: nn.Module, root: nn.Module) -> contextlib.AbstractContextManager:
    """Those that listen to a module hear its part `root` in this context, which is called without `training_step`."""
    all_of = _listening.get(module)
    return _Mode(module, all_of, root) if all_of else contextlib.nullcontext()


def listen(module: nn.Module, sites: Sequence[Site], listener: Listener | None = None) -> Listening:
    """Call `listener` for each activation and norm that `module.training_step` calls as a function, and each norm that
    it runs but does not hold, in order, until the handle is removed. An activation is named after the layer that ran
    before it, `layer03_conv2_relu`; a norm after its place, `layer03_encoder_2_layer_norm`. Meanwhile
    `sites.channel_axis` knows the channels of every tensor that was followed."""
    handle = Listening(module, sites, listener)
    all_of = _listening.setdefault(module, [])
    all_of.append(handle)
    if len(all_of) == 1:
        original = module.training_step

        @functools.wraps(original)
        def training_step(*args: Any, **kwargs: Any) -> Any:
            with _Mode(module, all_of):
                return original(*args, **kwargs)

        module.__dict__["training_step"] = training_step
    return handle
