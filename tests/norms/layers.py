"""Every norm of `configs/norm` as a model would build it, the three layouts, and what the tests compare."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import hydra.utils
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

CONFIGS = Path(__file__).parents[2] / "configs" / "norm"
NAMES = sorted({path.stem for path in CONFIGS.glob("*.yaml")} - {"original"})  # which is no layer
LAYOUTS = {"dense": ((4, 8), 1), "image": ((4, 8, 3, 5), 1), "tokens": ((4, 6, 8), -1)}  # shape, channel_dim
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
REFUSED = {("instancenorm", "dense"), ("switchablenorm", "dense"), ("switchablenorm", "tokens")}
CASES = [(name, layout) for name in NAMES for layout in LAYOUTS if (name, layout) not in REFUSED]


@cache
def _factory(name: str, overrides: tuple[str, ...]):
    root = OmegaConf.create(
        {"eps": 1e-5, "seed": 0, "batch_size": 4, "norm": OmegaConf.load(CONFIGS / f"{name}.yaml")}
    )
    small = {"virtual_batch_size": 2, "warmup_steps": 1, "r_steps": 3, "d_steps": 3}
    small |= {"freeze_after": 2, "fraction": 0.5}
    root.norm.update({key: value for key, value in small.items() if root.norm.get(key) not in (None, 1.0)})
    root.norm.merge_with_dotlist(list(overrides))
    return hydra.utils.instantiate(root.norm)


def norm_factory(name: str, *overrides: str):
    return _factory(name, overrides)


def build(name: str, layout: str = "dense", *overrides: str, native: bool = True) -> nn.Module:
    """The layer for 8 features in float64, with parameters and buffers away from where they start."""
    layer = randomized(norm_factory(name, *overrides)(8, LAYOUTS[layout][1], layer=3).double())
    layer.native = native
    return layer


def randomized(layer: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    for key, value in layer.state_dict().items():
        if value.is_floating_point():
            noise = torch.rand(value.shape, generator=generator, dtype=torch.float64).to(value.dtype)
            positive = key.endswith(("weight", "var", "phi", "alpha"))
            value.copy_(0.5 + noise if positive else noise - 0.5)
    return layer


def values(shape: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * 2 + 1).to(dtype)


def sample(layout: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return values(LAYOUTS[layout][0], seed, dtype)


def outcome(layer: nn.Module, x: Tensor, direction: Tensor | None = None) -> dict[str, Tensor]:
    """Output, gradients of input and parameters under a direction, by default a fixed random one, and buffers
    afterwards. The input keeps its memory layout."""
    layer, x = copy.deepcopy(layer), x.detach().requires_grad_()
    y = layer(x)
    direction = values(y.shape, seed=1) if direction is None else direction
    asked = {"x": x} | {name: p for name, p in layer.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(y, list(asked.values()), direction.to(y.device, y.dtype))
    gradients = {f"gradient of {name}": gradient for name, gradient in zip(asked, found, strict=True)}
    return {"output": y.detach(), **gradients, **dict(layer.named_buffers())}


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor], **tolerance: Any) -> None:
    assert a.keys() == b.keys()
    for key in a:
        torch.testing.assert_close(a[key], b[key], **tolerance, msg=(key + ": {}").format)
