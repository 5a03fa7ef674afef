"""What monitors take from the places where they measure: weights, what stands before a layer, rows of channels.

The layer that made a tensor knows the axis of its channels: the last one behind a linear map or an embedding, the one
behind the samples' for a convolution. While somebody listens (listen.py) the axis is followed through every function
that the network calls; where it is lost, as by an `einsum`, nothing is known until the next layer.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from normexp.models.sites import LINEAR_MAPS, WHOLE, Site
from normexp.monitors.guard import trained_parameters
from normexp.norms.layers import is_norm

CHANNELS_FIRST = {"num_features", "num_groups", "size"}  # of torch's batch, instance, group, response norms


def first_tensor(args: tuple, kwargs: dict) -> Tensor | None:
    """What a module was called with, by position or by name; None where that is no tensor of numbers."""
    return next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)


def read_input(site: Site, record: Callable[[Site, Tensor], None]) -> None:
    """Call `record(site, x)` with the input of each pass through a layer, until `untouched` drops the hook."""

    def hook(module: nn.Module, inputs: tuple, named: dict) -> None:
        if (x := first_tensor(inputs, named)) is not None:
            record(site, x)

    site.module.register_forward_pre_hook(hook, with_kwargs=True)


def in_vmap(x: Any) -> bool:
    """Whether x is a tensor inside `torch.vmap`, of which no number can be read."""
    functorch = torch._C._functorch
    while isinstance(x, Tensor) and functorch.is_functorch_wrapped_tensor(x):
        if functorch.is_batchedtensor(x):
            return True
        x = functorch.get_unwrapped(x)
    return False


def to_rows(x: Tensor, channel_dim: int) -> Tensor:
    """(N, C, ...) or (N, T, C) -> (n, C)."""
    x = x.detach()
    if not x.is_floating_point() or x.element_size() < 4:
        x = x.float()
    return x.movedim(channel_dim, -1).flatten(0, -2)


def number_of(tag: str, value: Any) -> Tensor:
    """A number of a measure as a tensor without dimensions. Raises ValueError for what is none."""
    if not isinstance(value, int | float | Tensor):
        what = type(value).__name__
    elif not (number := torch.as_tensor(value).detach()).dim() and not number.is_complex():
        return number
    else:
        what = f"{number.dtype} of {tuple(number.shape)}"
    raise ValueError(f"compute gave {what} for {tag}; give a real number or a tensor without dimensions")


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
            params = [p for p in site.module.parameters() if p.requires_grad and p not in seen]
            seen.update(params)
            if params:
                weights[site.layer] = params
    return weights


def noise_before(sites: list[Site]) -> dict[str, list[nn.Module]]:
    """For the layer of each linear map, the norms before it that draw new noise at each step (`next_noise`)."""
    return _before_maps(sites, (), lambda module: [module] if hasattr(module, "next_noise") else [])


def weights_before(module: nn.Module, sites: list[Site]) -> dict[str, list[nn.Parameter]]:
    """For the layer of each linear map, the trained parameters before it. These are the parameters of earlier sites,
    such as a norm's gain, and those of no site, such as embeddings, which stand at the input."""
    of_sites = {p for site in sites if site.kind != "embedding" for p in site.module.parameters()}
    at_input = [p for p in trained_parameters(module) if p not in of_sites]
    return _before_maps(sites, at_input, trained_parameters)


def _before_maps(
    sites: list[Site], at_input: Iterable, of_site: Callable[[nn.Module], Iterable]
) -> dict[str, list]:
    """For the layer of each linear map, what stands at the input and what each site before it has of its own."""
    passed, before = dict.fromkeys(at_input), {}
    for site in sites:
        if site.kind == "linear":
            before[site.layer] = list(passed)
        passed |= dict.fromkeys(of_site(site.module))
    return before


def own_axis(module: nn.Module) -> int | None:
    """The axis of the channels where a layer defines it, whatever arrives; else None."""
    if getattr(module, "channel_dim", None) is not None:
        return module.channel_dim
    if isinstance(module, (nn.Linear, nn.Bilinear, *WHOLE)):
        return -1
    return 1 if isinstance(module, LINEAR_MAPS) or CHANNELS_FIRST & module.__dict__.keys() else None


def channel_dim(module: nn.Module, ndim: int) -> int:
    """The channel axis of a site's tensors: its own, else 1 for (N, C) and (N, C, H, W), -1 for (N, T, C)."""
    if (axis := own_axis(module)) is not None:
        return axis
    if is_norm(module) and not (ndim == 4 and type(module).__name__.endswith("2d")):  # as LayerNorm2d's
        return -1
    return -1 if ndim == 3 else 1


# function -> the axis of the channels of its output, counted from the end
MADE = {
    "linear": -1, "bilinear": -1, "embedding": -1, "embedding_bag": -1, "multi_head_attention_forward": -1,
    "lstm": -1, "gru": -1, "rnn_tanh": -1, "rnn_relu": -1, "lstm_cell": -1, "gru_cell": -1, "rnn_tanh_cell": -1,
    "rnn_relu_cell": -1,
    "conv1d": -2, "conv_transpose1d": -2, "conv2d": -3, "conv_transpose2d": -3, "conv3d": -4, "conv_transpose3d": -4,
}  # fmt: skip
FIRST = ("batch_norm", "group_norm", "instance_norm")  # behind the axis of samples
LOST = (
    "__rmatmul__", "bmm", "baddbmm", "einsum", "tensordot", "scaled_dot_product_attention", "transpose_", "t_",
    "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_", "resize_", "set_",
)  # fmt: skip
# They may copy, so that memory alone does not tell that they move axes.
MOVE = ("reshape", "reshape_as", "view_as", "flatten", "unflatten")

_axes = WeakTensorKeyDictionary()  # tensor -> the axis of its channels, counted from the end


def channel_axis(x: Tensor) -> int | None:
    """The axis of the channels of a tensor, counted from the end; None if it is not known."""
    return -1 if x.ndim <= 2 else _axes.get(x)


def follow(func: Callable, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
    """Note the axis of what a function made of its arguments, as far as it is known."""
    outputs = list(_tensors(output))
    if not any(x.ndim > 1 for x in outputs):
        return
    try:
        found = _of(func, args, kwargs, outputs)
    except Exception:  # of a tensor class of the user's
        found = [None] * len(outputs)
    for x, axis in zip(outputs, found, strict=True):
        note(x, axis)


def note(x: Tensor, axis: int | None) -> None:
    """The channels of x, (..., C, ...), stand at this axis."""
    if axis is None:
        _axes.pop(x, None)
    else:
        _axes[x] = axis if axis < 0 else axis - x.ndim


def axis_at(site: Site, x: Tensor, declared: bool = False) -> int | None:
    """The axis of the channels of x at a site, by the layer itself where it has channels of its own, else by the layers
    before it; None if nobody knows. In a network that declares its sites it is as contracted, see `channel_dim`."""
    followed = channel_axis(x)
    if x.ndim <= 2:
        return -1
    if site.kind not in ("norm", "linear"):
        return channel_dim(site.module, x.ndim) if followed is None and declared else followed
    if (axis := own_axis(site.module)) is not None:
        return axis
    several = len(tuple(getattr(site.module, "normalized_shape", (0,)))) > 1
    return followed if followed is not None or several else channel_dim(site.module, x.ndim)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _of(func: Callable, args: tuple, kwargs: dict[str, Any], outputs: list[Tensor]) -> list[int | None]:
    name = getattr(func, "__name__", "")
    if name in MADE:
        return [MADE[name]] * len(outputs)
    if name in FIRST:
        return [1 - outputs[0].ndim]
    if name in LOST:
        return [None] * len(outputs)
    if name in ("matmul", "__matmul__"):
        return [-1 if args[-1].ndim == 2 else None]  # by a matrix, as a linear map does
    known = [x for x in _tensors((*args, *kwargs.values())) if x in _axes]
    if not known:
        alone = name in ("layer_norm", "rms_norm") and len((*args, *kwargs.values())[1]) == 1
        return [-1 if alone else None] * len(outputs)
    x = known[0]
    if name in MOVE or _moved(x, outputs[0]):
        marked = [_marked(x) if arg is x else arg for arg in args]
        return [_marked_axis(y) for y in _tensors(func(*marked, **kwargs))]
    axes = {_axes[x] for x in known if x.ndim == outputs[0].ndim}
    axis = axes.pop() if len(axes) == 1 else None
    gone = axis is None or (
        outputs[0].shape[axis] == 1 < max(x.shape[axis] for x in known if x.ndim >= -axis)
    )
    return [None if gone or y.ndim != outputs[0].ndim else axis for y in outputs]


def _moved(x: Tensor, y: Tensor) -> bool:
    """Whether y is the memory of x in another order."""
    same = x.shape == y.shape and x.stride() == y.stride()
    return not same and x.untyped_storage()._cdata == y.untyped_storage()._cdata


def _marked(x: Tensor) -> Tensor:
    """A stand-in for x, without memory, in which one step of the channels is the only step that leads anywhere."""
    strides = [0] * x.ndim
    strides[_axes[x]] = 1
    return torch.empty_strided(x.shape, strides, device="meta")


def _marked_axis(y: Tensor) -> int | None:
    axes = [axis - y.ndim for axis in range(y.ndim) if y.stride(axis) and y.shape[axis] > 1]
    return axes[0] if len(axes) == 1 and y._is_view() else None
