"""A network from elsewhere as the model of a run: torchvision's by its name, a user's own by its path.
The run's norm replaces its norms; sites are found in its layers."""

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from normexp.models.sites import Site, derived_sites
from normexp.norms.base import evaluation_mode
from normexp.norms.layers import is_norm
from normexp.norms.swap_norms import Original, SwapTable, swap

NESTED = ("state_dict", "model", "model_state", "state_dict_ema")  # where checkpoints keep the weights


class OtherNetwork(nn.Module):
    """A network from elsewhere. The run's norm replaces its normalization layers and keeps their gain, shift and
    running statistics. `swapped` is the table of the replacements, None under `norm=original`, which keeps the norms.

    Shape: images (N, C, H, W) to logits (N, num_classes), or tokens (N, T) to (N, T, num_classes). An image of one
    channel is copied to all `channels` that the network takes.
    """

    accepts = "image"
    derives_sites = True  # if the network names no sites, monitors also look for functions that it calls

    def __init__(
        self,
        network: nn.Module,
        norm: Callable[..., nn.Module] | None,
        *,
        weights: str | None,
        channels: int = 0,
    ):
        super().__init__()
        self.network, self.channels = network, channels
        self.convolves = any(isinstance(module, nn.Conv2d) for module in network.modules())
        self.left_out = load_weights(network, weights) if weights is not None else []
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


def load_weights(network: nn.Module, file: str) -> list[str]:
    """Load a file of weights (a state_dict, or a checkpoint that has one) into a network. Only tensors and plain values
    are read (`weights_only=True`). Tensors of the first and the last layer that have another shape, for other images or
    classes, are omitted. Returns their names.

    Raises:
        ValueError: no such file, no weights in it, or weights of another network.
    """
    if not Path(file).is_file():
        raise ValueError(f"model.weights={file}: not found; name a file of weights, as torch.save writes it")
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # the file may hold anything
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"model.weights={file}: cannot be read as weights ({reason})") from None
    for key in NESTED:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    found = content if isinstance(content, dict) else {}
    found = {key.removeprefix("module."): value for key, value in found.items()}
    own = {
        key: value for key, value in network.state_dict().items() if not key.endswith("num_batches_tracked")
    }
    others = [key for key, value in own.items() if getattr(found.get(key), "shape", None) != value.shape]
    ends = {key.rpartition(".")[0] for key in (next(iter(own)), next(reversed(own)))}
    wrong = [key for key in others if key not in found or key.rpartition(".")[0] not in ends]
    if wrong:
        raise ValueError(
            f"model.weights={file}: lacks {len(wrong)} of {len(own)} weights or has them in another shape, "
            f"the first is {wrong[0]}; name the file of this network"
        )
    network.load_state_dict({key: value for key, value in found.items() if key not in others}, strict=False)
    return others


class Torchvision(OtherNetwork):
    """A network of `torchvision.models` by its name: resnet18, vgg11_bn, densenet121, convnext_tiny, vit_b_16, swin_t.

    Args:
        input_shape: (C, H, W); C is 1 or 3. A vit is built for the side of the image.
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)`` for each norm of the network.
        weights: a file of weights. If the number of classes differs, the last layer stays as initialized.
        options: of torchvision's builder, e.g. `dropout: 0.1`.

    Raises:
        ValueError: an unknown name or option, an image of other channels, a file that does not fit.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        name: str,
        weights: str | None = None,
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
        super().__init__(network, norm, weights=weights, channels=3)


class OwnNetwork(OtherNetwork):
    """Your `nn.Module`. Its constructor gets those of `input_shape`, `num_classes` and `norm` that it takes, and the
    options in `model.module`. If it takes no `norm`, its normalization layers are replaced, unless the norm is
    `original`. Lazy layers get their sizes from one empty input.

    Args:
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)``.
        module: the class, with its options.
        path: dotted path of the class.
        accepts: image, (N, C, H, W) to logits (N, num_classes); text, tokens (N, T) to (N, T, num_classes).
        weights: a file of weights. If the number of classes differs, the last layer stays as initialized.
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
        weights: str | None = None,
    ):
        given: dict[str, Any] = {"input_shape": input_shape, "num_classes": num_classes, "norm": norm}
        kind = getattr(module, "func", module)
        if isinstance(kind, type) and not issubclass(kind, nn.Module):
            raise ValueError(f"model.path: {kind.__name__} is no torch.nn.Module; name a network's class")
        takes = inspect.signature(module).parameters.keys() - getattr(module, "keywords", {}).keys()
        own = {key: value for key, value in given.items() if key in takes}
        network = module(**own)
        if any(is_lazy(tensor) for tensor in (*network.parameters(), *network.buffers())):
            _see_once(network, input_shape, accepts)
        super().__init__(network, None if "norm" in own else norm, weights=weights)
        self.accepts, self.derives_sites = accepts, not hasattr(network, "sites")
        self.convolves = getattr(network, "convolves", self.convolves)

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
    for path, tensor in (*network.named_parameters(), *network.named_buffers()):
        if is_lazy(tensor):
            raise ValueError(
                f"model.path: {path} is lazy, and no forward reaches it; give it its sizes or remove it"
            )
