"""Change the first layers of a network for small images."""

import torch
from torch import nn


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
    _put(network, path, stem)
    for other, module in network.named_modules():
        if isinstance(module, nn.MaxPool2d):
            _put(network, other, nn.Identity())
        if isinstance(module, nn.MaxPool2d) or (isinstance(module, nn.Conv2d) and module is not stem):
            break  # layers after the second convolution are not the stem


def _put(network: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, module)
