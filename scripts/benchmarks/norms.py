"""The cost of a norm's kernels over torch's nearest native layer, in turn in one process."""

import time
from collections.abc import Callable

import hydra.utils
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from normexp.config.folder import CONFIGS

from . import Measured, Options

SHAPES = {"dense": (256, 512), "image": (128, 64, 16, 16), "tokens": (32, 64, 128)}
SAMPLE_SECONDS = 0.01  # of one timing; shorter calls are repeated


def ours(name: str, shape: tuple[int, ...]) -> nn.Module:
    root = OmegaConf.create(
        {"eps": 1e-5, "seed": 0, "norm": OmegaConf.load(CONFIGS / "norm" / f"{name}.yaml")}
    )
    return hydra.utils.instantiate(root.norm)(features(shape), -1 if len(shape) == 3 else 1)


def features(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) == 4 else shape[-1]


def native(name: str, shape: tuple[int, ...]) -> nn.Module:
    """torch's layer over the same axes, of the family of the config `name`; LayerNorm if torch has no such family."""
    c, image = features(shape), len(shape) == 4
    if name.startswith("batch"):
        return nn.BatchNorm2d(c) if image else Moved(nn.BatchNorm1d(c), lambda x: x.flatten(0, -2))
    if name.startswith("rmsnorm"):
        return nn.RMSNorm(shape[1:] if image else c, eps=1e-5)
    if name.startswith("instance"):
        return Moved(
            nn.InstanceNorm1d(c, affine=True), lambda x: x.flatten(2) if image else x.transpose(1, 2)
        )
    if name.startswith("group"):
        return nn.GroupNorm(4, c) if image else Moved(nn.GroupNorm(4, c), lambda x: x.flatten(0, -2))
    return nn.GroupNorm(1, c) if image else nn.LayerNorm(c)


class Moved(nn.Module):
    """A layer on another view of its input; the result has the input's layout."""

    def __init__(self, layer: nn.Module, view: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.view = layer, view

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(self.view(x))
        return y.transpose(1, 2) if x.dim() == 3 and y.dim() == 3 else y.view(x.shape)


def norms(name: str, shape: str, options: Options) -> Measured:
    """Microseconds of forward and backward, over torch's layer."""
    torch.set_num_threads(1)
    size = (8, 16, 4, 4)[: len(SHAPES[shape])] if options.quick else SHAPES[shape]
    x = torch.randn(size, requires_grad=True)
    gradient = x.detach().roll(1)

    def microseconds(layer: nn.Module, repeats: int) -> float:
        started = time.perf_counter()
        for _ in range(repeats):
            for leaf in (x, *layer.parameters()):
                leaf.grad = None
            layer(x).backward(gradient)
        return 1e6 * (time.perf_counter() - started) / repeats

    layers = ours(name, size), native(name, size)
    for layer in layers:
        microseconds(layer, 3)  # warm up
    a, b = (max(1, int(1e6 * SAMPLE_SECONDS / microseconds(layer, 3))) for layer in layers)
    return [(microseconds(layers[0], a), microseconds(layers[1], b)) for _ in options.rounds()], {}
