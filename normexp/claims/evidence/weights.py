"""Initial weights that are drawn in place of those of a configuration: entries, a structure, a mean, pairs of units."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from normexp.claims.laws.sites import SiteNetwork, modules_of
from normexp.claims.spec.population import Range

CHOICES: dict[str, list] = {  # of the parts of weights that are no numbers
    "entries": ["normal", "uniform", "signs", "sparse", "heavy-tailed"],
    "structure": ["iid", "orthogonal", "symmetric", "low rank", "near identity", "circulant"],
    "pairs": ["none", "mirrored", "repeated"],
    "shared": [False, True],
}


@dataclass(frozen=True)
class Weights:
    """One way to draw the weights of every hidden map, in four steps that are drawn apart: entries of variance 1 around
    0 from some distribution, a structure, a common mean, and pairs of units. No step knows which sentence is asked."""

    entries: str  # sparse: one in ten is not 0
    structure: str  # what is made of a matrix of such entries
    mean: float  # added to each entry, in units of their deviation
    # mirrored: the rows come as A and -A, and over paired inputs as [[A, -A], [-A, A]]; repeated: without the signs.
    pairs: str
    scale: float  # deviation of an entry times the root of the fan-in
    shared: bool  # whether maps of equal shape are equal

    @classmethod
    def draw(cls, generator: torch.Generator) -> Self:
        """Weights with each part drawn alone; the mean is 0 in one of three."""
        return cls(**{field.name: _drawn(field.name, generator) for field in fields(cls)})

    def changed(self, generator: torch.Generator) -> Self:
        """A copy with one part drawn anew; a number may instead move by up to a factor of two."""
        name = pick([field.name for field in fields(self)], generator)
        value = getattr(self, name)
        if isinstance(value, float) and value and unit(generator) < 0.5:
            value *= 2 ** (2 * unit(generator) - 1)
        else:
            value = _drawn(name, generator)
        return replace(self, **{name: value})

    @torch.no_grad()
    def fill(self, network: SiteNetwork, seed: int) -> None:
        """Draw the weights of every map but the last, which makes the logits."""
        generator = torch.Generator().manual_seed(seed)
        known: dict[torch.Size, Tensor] = {}
        for layer in modules_of(network, "linear")[:-1]:
            weight = layer.get_parameter("weight")
            if weight.shape not in known or not self.shared:
                known[weight.shape] = matrix(self, len(weight), weight[0].numel(), generator)
            weight.copy_(known[weight.shape].reshape(weight.shape))

    def __str__(self) -> str:
        parts = [self.structure, f"{self.entries} entries", f"mean {self.mean:.3g} deviations"]
        if self.pairs != "none":
            parts.append(f"{self.pairs} pairs")
        parts.append(f"scale {self.scale:.3g}")
        if self.shared:
            parts.append("shared")
        return ", ".join(parts)


def pick(values: list | Range, generator: torch.Generator) -> Any:
    """One of a list, or a number of a range."""
    if isinstance(values, list):
        return values[int(torch.randint(len(values), (), generator=generator))]
    return values.low + unit(generator) * (values.high - values.low)


def unit(generator: torch.Generator) -> float:
    """A number between 0 and 1."""
    return float(torch.rand((), generator=generator))


def _drawn(name: str, generator: torch.Generator) -> Any:
    if name in CHOICES:
        return pick(CHOICES[name], generator)
    if name == "scale":
        return 10 ** (2 * unit(generator) - 1)
    size = 10 ** (3 * unit(generator) - 2)
    return 0.0 if unit(generator) < 1 / 3 else size if unit(generator) < 0.5 else -size


def matrix(weights: Weights, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """(rows, columns); pairs need an even number of rows, and are over inputs too in square matrices."""
    if weights.pairs == "none" or rows % 2:
        whole = _core(weights, rows, columns, generator)
    else:
        sign = -1.0 if weights.pairs == "mirrored" else 1.0
        square = rows == columns
        core = _core(weights, rows // 2, columns // 2 if square else columns, generator)
        whole = torch.cat([core, sign * core])
        whole = torch.cat([whole, sign * whole], 1) if square else whole
    return weights.scale / math.sqrt(columns) * whole


def _core(weights: Weights, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Structure and mean, with entries of variance 1."""
    base = _entries(weights.entries, rows, columns, generator)
    if weights.structure == "orthogonal":
        base = _orthogonal(base)
    elif weights.structure == "low rank":
        rank = max(1, min(rows, columns) // 8)
        other = _entries(weights.entries, rank, columns, generator)
        base = base[:, :rank] @ other / math.sqrt(rank)
    elif weights.structure == "circulant":
        base = torch.stack([base[0].roll(shift) for shift in range(rows)])
    elif weights.structure != "iid" and rows == columns:
        eye = math.sqrt(columns) * torch.eye(columns)
        base = (base + base.T) / math.sqrt(2) if weights.structure == "symmetric" else eye + base / 4
    return base + weights.mean


def _entries(name: str, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    if name == "uniform":
        return math.sqrt(12) * (torch.rand(rows, columns, generator=generator) - 0.5)
    normal = torch.randn(rows, columns, generator=generator)
    if name == "signs":
        return normal.sign()
    if name == "sparse":
        return math.sqrt(10) * normal * (torch.rand(rows, columns, generator=generator) < 0.1)
    if name == "heavy-tailed":  # a normal scale mixture, of variance 1
        scale = torch.randn(rows, columns, generator=generator).exp()
        return normal * scale / math.exp(1)
    return normal


def _orthogonal(base: Tensor) -> Tensor:
    """Orthonormal rows or columns, times the root of the larger side, so that an entry has variance 1."""
    wide = base.shape[0] < base.shape[1]
    q, r = torch.linalg.qr(base.T if wide else base)
    q = q * r.diagonal().sign()
    return math.sqrt(max(base.shape)) * (q.T if wide else q)
