"""Every norm of `configs/norm`, built as a model would build it."""

from functools import cache
from pathlib import Path

import hydra.utils
import torch
from omegaconf import OmegaConf

CONFIGS = Path(__file__).parents[2] / "configs" / "norm"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))


@cache
def _factory(name: str, overrides: tuple[str, ...]):
    root = OmegaConf.create(
        {"eps": 1e-5, "seed": 0, "batch_size": 8, "norm": OmegaConf.load(CONFIGS / f"{name}.yaml")}
    )
    root.norm.merge_with_dotlist(list(overrides))
    return hydra.utils.instantiate(root.norm)


def norm_factory(name: str, *overrides: str):
    return _factory(name, overrides)


def randomized(layer: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Gains, shifts and running estimates away from their start, where mistakes with them would not show."""
    generator = torch.Generator().manual_seed(seed)
    for key, value in layer.state_dict().items():
        if value.is_floating_point():
            noise = torch.rand(value.shape, generator=generator, dtype=torch.float64).to(value.dtype)
            value.copy_(0.5 + noise if key.endswith(("weight", "var")) else noise - 0.5)
    return layer
