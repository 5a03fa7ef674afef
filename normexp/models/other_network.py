"""A network from elsewhere as the model of a run: torchvision's by its name, a user's own by its path.
The run's norm replaces its norms; sites are found in its layers."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from normexp.models.sites import Site, derived_sites
from normexp.norms.layers import is_norm
from normexp.norms.swap_norms import Original, swap
from normexp.norms.swap_table import SwapTable


class OtherNetwork(nn.Module):
    """A network from elsewhere. The run's norm replaces its normalization layers and keeps their gain, shift and
    running statistics. `swapped` is the table of the replacements, None under `norm=original`, which keeps the norms.

    Shape: images (N, C, H, W) to logits (N, num_classes), or tokens (N, T) to (N, T, num_classes). An image of one
    channel is copied to all `channels` that the network takes.
    """

    accepts = "image"
    derives_sites = True  # if the network names no sites, monitors also look for functions that it calls

    def __init__(self, network: nn.Module, norm: Callable[..., nn.Module] | None, *, channels: int = 0):
        super().__init__()
        self.network, self.channels = network, channels
        self.convolves = any(isinstance(module, nn.Conv2d) for module in network.modules())
        self.swapped = (
            None if norm is None or getattr(norm, "func", norm) is Original else _swapped(network, norm)
        )

    def forward(self, inputs: Tensor) -> Any:
        if self.channels and inputs.shape[1] == 1:
            inputs = inputs.expand(-1, self.channels, -1, -1)
        return self.network(inputs)

    def sites(self) -> list[Site]:
        return derived_sites(self.network)


def _swapped(network: nn.Module, norm: Callable[..., nn.Module]) -> SwapTable | None:
    if any(is_norm(module) for module in network.modules()):
        return swap(network, norm)
    if getattr(norm, "func", norm).__name__ != "Identity":  # otherwise every arm would be the same network
        raise ValueError(
            f"model: {type(network).__name__} has no normalization layer to replace; use another network or norm=none"
        )
    return None


class Torchvision(OtherNetwork):
    """A network of `torchvision.models` by its name: resnet18, vgg11_bn, densenet121, convnext_tiny, vit_b_16, swin_t.

    Args:
        input_shape: (C, H, W); C is 1 or 3. A vit is built for the side of the image.
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)`` for each norm of the network.
        options: of torchvision's builder, e.g. `dropout: 0.1`.

    Raises:
        ValueError: an unknown name or option, an image of other channels.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        name: str,
        options: dict[str, Any] | None = None,
    ):
        from torchvision import models

        # Only of `torchvision.models` itself, because detection and segmentation lie in its sub-packages.
        if name not in (known := models.list_models(module=models)):
            near = difflib.get_close_matches(name, known, n=3) or known[:3]
            raise ValueError(
                f"model.name={name}: torchvision has no such network; {', '.join(near)} and others are there"
            )
        channels, *sides = input_shape
        if channels not in (1, 3):
            raise ValueError(f"model.name={name}: takes images of 1 or 3 channels, and these have {channels}")
        more: dict[str, Any] = {"image_size": sides[0]} if name.startswith("vit_") else {}
        more |= {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
        network = models.get_model(name, weights=None, num_classes=num_classes, **(more | (options or {})))
        super().__init__(network, norm, channels=3)


class OwnNetwork(OtherNetwork):
    """Your `nn.Module`. Its constructor gets those of `input_shape`, `num_classes` and `norm` that it takes, and the
    options in `model.module`. If it takes no `norm`, its normalization layers are replaced, unless the norm is
    `original`.

    Args:
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)``.
        module: the class, with its options.
        path: dotted path of the class.
        accepts: image, (N, C, H, W) to logits (N, num_classes); text, tokens (N, T) to (N, T, num_classes).
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
    ):
        given: dict[str, Any] = {"input_shape": input_shape, "num_classes": num_classes, "norm": norm}
        kind = getattr(module, "func", module)
        if isinstance(kind, type) and not issubclass(kind, nn.Module):
            raise ValueError(f"model.path: {kind.__name__} is no torch.nn.Module; name a network's class")
        parameters = inspect.signature(module).parameters
        takes = parameters.keys() - getattr(module, "keywords", {}).keys()
        for name, p in parameters.items():
            if name not in given and p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise ValueError(
                    f"model.path: {kind.__name__} takes {name}; write +model.module.{name}=VALUE"
                )
        kwargs = {key: value for key, value in given.items() if key in takes}
        network = module(**kwargs)
        for name, tensor in (*network.named_parameters(), *network.named_buffers()):
            if is_lazy(tensor):
                raise ValueError(
                    f"model.path: {name} is lazy; give its layer the sizes, which input_shape tells"
                )
        super().__init__(network, None if "norm" in kwargs else norm)
        self.accepts, self.derives_sites = accepts, not hasattr(network, "sites")
        self.convolves = getattr(network, "convolves", self.convolves)

    def sites(self):
        """The sites that the network names itself, else those found in its layers."""
        return self.network.sites() if hasattr(self.network, "sites") else super().sites()
