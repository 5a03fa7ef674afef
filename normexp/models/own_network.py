"""A user's own network as a model: `model=module model.path=my_package.MyNet`."""

import inspect
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from normexp.models.other_network import OtherNetwork, keeps_its_norms
from normexp.norms.base import evaluation_mode
from normexp.norms.layers import is_norm

GIVEN = ("input_shape", "num_classes", "norm")


class OwnNetwork(OtherNetwork):
    """Your `nn.Module`. Its constructor gets those of `input_shape`, `num_classes` and `norm` that it takes, and the
    options in `model.module`. If it takes no `norm`, its normalization layers are replaced. Lazy layers get their sizes
    from one empty input.

    Args:
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)``.
        module: the class, with its options.
        path: dotted path of the class.
        accepts: image, (N, C, H, W) to logits (N, num_classes); text, tokens (N, T) to (N, T, num_classes).
        swap: false keeps the network's own norms. The run then says so too, `norm=original`, which alone is enough.
        weights: a file of weights. If the number of classes differs, the last layer stays as initialized.

    Raises:
        ValueError: `swap=False` under another norm than `original`, for a network with norms.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        module: Callable[..., nn.Module],
        path: str | None = None,
        accepts: Literal["image", "text"] = "image",
        swap: bool = True,
        weights: str | None = None,
    ):
        given: dict[str, Any] = dict(zip(GIVEN, (input_shape, num_classes, norm), strict=True))
        takes = inspect.signature(module).parameters
        own = {key: value for key, value in given.items() if key in takes and not _is_bound(module, key)}
        builds_norms = "norm" in own
        network = module(**own)
        if any(is_lazy(tensor) for tensor in (*network.parameters(), *network.buffers())):
            _see_once(network, input_shape, accepts)
        if not (swap or builds_norms or keeps_its_norms(norm)) and any(map(is_norm, network.modules())):
            raise ValueError(
                "model.swap=false: the network keeps its own norms, and the run would stand under another norm; "
                "set norm=original"
            )
        super().__init__(network, norm if swap and not builds_norms else None, weights=weights)
        self.accepts, self.derives_sites = accepts, not hasattr(network, "sites")
        if hasattr(network, "convolves"):
            self.convolves = network.convolves

    def sites(self):
        """The sites that the network names itself, else those found in its layers."""
        return self.network.sites() if hasattr(self.network, "sites") else super().sites()


def _see_once(network: nn.Module, input_shape: tuple[int, ...], accepts: str) -> None:
    """Give lazy layers their sizes. Eval mode, so that no running statistic counts the empty input.

    Raises:
        ValueError: a lazy layer stays without sizes, because no forward reaches it.
    """
    inputs = torch.zeros((1, *input_shape), dtype=torch.long if accepts == "text" else None)
    with evaluation_mode(network), torch.no_grad():
        network(inputs)
    for path, layer in network.named_modules():
        tensors = (*layer.parameters(recurse=False), *layer.buffers(recurse=False))
        if any(is_lazy(tensor) for tensor in tensors):
            raise ValueError(
                f"model.path: {path} is lazy, and no forward reaches it; give it its sizes or remove it"
            )


def _is_bound(module: Callable[..., nn.Module], key: str) -> bool:
    return key in getattr(module, "keywords", {})
