"""A network from elsewhere as the model of a run: torchvision's and timm's by their names, a user's own by its path.
The run's norm replaces its norms; sites are found in its layers."""

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from normexp.format import require_choice
from normexp.models.sites import Site, derived_sites
from normexp.norms.base import evaluation_mode
from normexp.norms.layers import is_norm
from normexp.norms.swap_norms import Original, SwapTable, put, swap

NESTED = ("state_dict", "model", "model_state", "state_dict_ema")  # where checkpoints keep the weights


class OtherNetwork(nn.Module):
    """A network from elsewhere. The run's norm replaces its normalization layers and keeps their gain, shift and
    running statistics. `swapped` is the table of the replacements, None under `norm=original`, which keeps the norms.

    Shape: images (N, C, H, W) to logits (N, num_classes), or tokens (N, T) to (N, T, num_classes). An image of one
    channel is copied to all `channels` that the network takes. `stem` is own or small, see `make_stem_small`.
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
        stem: str = "own",
    ):
        super().__init__()
        require_choice("model.stem", stem, ("own", "small"))
        self.network, self.channels = network, channels
        self.convolves = any(isinstance(module, nn.Conv2d) for module in network.modules())
        self.left_out = load_weights(network, weights) if weights is not None else []
        self.swapped = None if norm is None or keeps_its_norms(norm) else _swapped(network, norm)
        if stem == "small":
            make_stem_small(network)

    def forward(self, inputs: Tensor) -> Any:
        if self.channels and inputs.shape[1] == 1:
            inputs = inputs.expand(-1, self.channels, -1, -1)
        return self.network(inputs)

    def sites(self) -> list[Site]:
        return derived_sites(self.network)


def keeps_its_norms(norm: Callable[..., nn.Module]) -> bool:
    """Whether the run's norm is `original`."""
    return getattr(norm, "func", norm) is Original


def _swapped(network: nn.Module, norm: Callable[..., nn.Module]) -> SwapTable | None:
    if any(is_norm(module) for module in network.modules()):
        return swap(network, norm)
    if getattr(norm, "func", norm).__name__ != "Identity":  # otherwise every arm would be the same network
        raise ValueError(
            f"model: {type(network).__name__} has no normalization layer to replace; use another network or norm=none"
        )
    return None


def load_weights(network: nn.Module, file: str) -> list[str]:
    """Load a file of weights (a state_dict, or a checkpoint that has one) into a network.

    Only tensors and plain values are read (`weights_only=True`). The names must be those of the network. The shapes of
    the last and the first layer depend on the number of classes and on the images, so a tensor of theirs with another
    shape is omitted. Returns the names of omitted tensors.

    Raises:
        ValueError: no such file, no weights in it, or weights of another network.
    """
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"model.weights={file}: not found; name a file of weights, as torch.save writes it")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the file may hold anything
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"model.weights={file}: cannot be read as weights ({reason})") from None
    for key in NESTED:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    found = {k.removeprefix("module."): v for k, v in content.items()} if isinstance(content, dict) else {}
    own = network.state_dict()
    both = [key for key in own if isinstance(found.get(key), Tensor)]
    counted = [key for key in own if not key.endswith("num_batches_tracked")]
    if missing := [key for key in counted if key not in both]:
        raise ValueError(
            f"model.weights={file}: lacks {len(missing)} of {len(counted)} weights, the first is {missing[0]}; "
            "name the file of this network"
        )
    others = [key for key in both if found[key].shape != own[key].shape]
    ends = {_layer(counted[0]), _layer(counted[-1])}
    if wrong := [key for key in others if _layer(key) not in ends]:
        raise ValueError(
            f"model.weights={file}: {wrong[0]} is {tuple(found[wrong[0]].shape)}, the network's is "
            f"{tuple(own[wrong[0]].shape)}; name the file of this network"
        )
    network.load_state_dict({key: found[key] for key in both if key not in others}, strict=False)
    return others


def _layer(key: str) -> str:
    return key.rpartition(".")[0]


def make_stem_small(network: nn.Module) -> None:
    """Let the first convolution keep the resolution, and remove the max-pooling after it, in place.

    A kernel larger than 3 becomes its inner 3x3. A network over patches gets patches of half the side. This is the
    usual form of ImageNet's networks for images of 32x32 (for ResNet: He et al. 2015, section 4.2). The weights are the
    middle of the old kernel, scaled by the ratio of the sides, which keeps the variance of the output.

    Raises:
        ValueError: no convolution, or a first one that already keeps the resolution.
    """
    convolutions = [(path, m) for path, m in network.named_modules() if isinstance(m, nn.Conv2d)]
    if not convolutions or convolutions[0][1].stride == (1, 1):
        raise ValueError(
            "model.stem=small: the first convolution keeps the resolution already; use model.stem=own"
        )
    path, first = convolutions[0]
    side = first.kernel_size[0]
    patches = first.stride == first.kernel_size
    if patches and side > 8:
        raise ValueError(
            f"model.stem=small: patches of {side} pixels count in the positions that this network learns; "
            "use model.options of its own, such as image_size"
        )
    size = side // 2 if patches else min(3, side)
    stem = nn.Conv2d(
        first.in_channels, first.out_channels, size, size if patches else 1, 0 if patches else size // 2,
        groups=first.groups, bias=first.bias is not None,
    )  # fmt: skip
    cut = (side - size) // 2
    with torch.no_grad():
        inner = first.weight[:, :, cut : cut + size, cut : cut + size]
        stem.weight.copy_(inner * (side / size))
        if first.bias is not None:
            stem.bias.copy_(first.bias)
    put(network, path, stem)
    for other, module in network.named_modules():
        if isinstance(module, nn.MaxPool2d):
            put(network, other, nn.Identity())
        if isinstance(module, nn.MaxPool2d) or (isinstance(module, nn.Conv2d) and module is not stem):
            break  # layers after the second convolution are not the stem


class Torchvision(OtherNetwork):
    """A network of `torchvision.models` by its name: resnet18, vgg11_bn, densenet121, convnext_tiny, vit_b_16, swin_t.

    Args:
        input_shape: (C, H, W); C is 1 or 3. A vit is built for the side of the image.
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)`` for each norm of the network.
        stem: small keeps the resolution in the first layers, for images of 32x32; see `make_stem_small`.
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
        stem: Literal["own", "small"] = "own",
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
        super().__init__(network, norm, weights=weights, channels=3, stem=stem)


class Timm(OtherNetwork):
    """A network of timm by its name. No weights are downloaded. Needs `pip install normexp[timm]`.

    Args:
        input_shape: (C, H, W).
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)`` for each norm of the network.
        stem: small keeps the resolution in the first layers, for images of 32x32; see `make_stem_small`.
        weights: a file of weights. If the number of classes differs, the last layer stays as initialized.
        options: of `timm.create_model`, e.g. `drop_path_rate: 0.1`.

    Raises:
        ValueError: timm is not installed, an unknown name or option, a file that does not fit.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        name: str,
        stem: Literal["own", "small"] = "own",
        weights: str | None = None,
        options: dict[str, Any] | None = None,
    ):
        try:
            import timm
        except ImportError:
            raise ValueError("model=timm: timm is not installed; pip install normexp[timm]") from None
        if not name.isidentifier() or not timm.is_model(name):  # timm would take another name for an address
            raise ValueError(f"model.name={name}: timm has no such network; timm.list_models() names them")
        channels, *sides = input_shape
        for key in ("pretrained", "checkpoint_path", "num_classes", "in_chans"):
            if key in (options or {}):
                raise ValueError(f"model.options.{key}: is given by normexp; use model.weights for weights")
        more = {"img_size": sides[0]} if name.startswith(("vit_", "deit", "swin", "eva", "beit")) else {}
        network = timm.create_model(
            name, pretrained=False, num_classes=num_classes, in_chans=channels, **(more | (options or {}))
        )
        super().__init__(network, norm, weights=weights, stem=stem)


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
        kind = getattr(module, "func", module)
        if isinstance(kind, type) and not issubclass(kind, nn.Module):
            raise ValueError(f"model.path: {kind.__name__} is no torch.nn.Module; name a network's class")
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
