"""A search for counterexamples to a universal sentence, over options and initial weights.

Half of the budget is drawn, half changes what came nearest in each kind of case in turn (as MAP-Elites does, Mouret and
Clune 2015, arXiv:1504.04909), so that one easy kind of counterexample does not hide the others.
"""

import math
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any, Self

import pandas as pd
import torch
from torch import Tensor

from normexp.claims.evidence.initial import value_of_arm
from normexp.claims.judge.one_setting import outside
from normexp.claims.laws import Network, modules_of
from normexp.claims.spec.claim import Claim, Range, Search

TRIES = 20  # draws for one case, since a network whose signal or gradient is dead gives no finite value
LEAST_GAIN = 1e-4  # of the excess; less may be rounding, and rounding differs from processor to processor
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
        name = _pick([field.name for field in fields(self)], generator)
        value = getattr(self, name)
        if isinstance(value, float) and value and _unit(generator) < 0.5:
            value *= 2 ** (2 * _unit(generator) - 1)
        else:
            value = _drawn(name, generator)
        return replace(self, **{name: value})

    @torch.no_grad()
    def fill(self, network: Network, seed: int) -> None:
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
        parts += [f"{self.pairs} pairs"] if self.pairs != "none" else []
        return ", ".join([*parts, f"scale {self.scale:.3g}", *(["shared"] if self.shared else [])])


@dataclass(frozen=True)
class Case:
    """One point of the space: a value for each key of `choose`, and weights where the claim searches them."""

    chosen: dict[str, Any]
    weights: Weights | None

    @property
    def kind(self) -> tuple:
        """The parts that are no numbers. Cases with equal ones are of one kind."""
        weights_kind = (self.weights.structure, self.weights.pairs) if self.weights else ()
        return (*weights_kind, *(value for value in self.chosen.values() if not isinstance(value, float)))

    def __str__(self) -> str:
        short = {key: f"{v:.4g}" if isinstance(v, float) else v for key, v in self.chosen.items()}
        parts = [f"{key.rpartition('.')[2]} {value}" for key, value in short.items()]
        return "; ".join([*parts, *([str(self.weights)] if self.weights else [])])


def search(claim: Claim) -> pd.DataFrame:
    """One row a case, in the form of other evidence; `seed` numbers the cases and `case` says what each is."""
    assert claim.search is not None
    (arm,), space, cases = claim.arms, claim.search, claim.search.cases
    rows: list[dict[str, Any]] = []
    nearest: dict[tuple, tuple[float, Case]] = {}
    for index in range(cases):
        seed = claim.first_seed + index
        generator = torch.Generator().manual_seed(seed)
        old = list(nearest.values())[index % len(nearest)][1] if index >= cases // 2 else None
        for _ in range(TRIES):
            case = changed(space, old, generator) if old else draw(space, generator)
            if math.isfinite(value := value_of_arm(claim, arm, case.chosen, seed, case.weights)):
                break
        else:
            raise ValueError(
                f"claim={claim.id}: search: {TRIES} draws gave no finite value; narrow the space"
            )
        row = {"arm": arm, "factor": "", "seed": index, "value": value, "case": str(case)}
        rows.append(row)
        excess = max(outside(c, SimpleNamespace(**row), [""]) for c in claim.comparisons)
        if case.kind not in nearest or excess - nearest[case.kind][0] > LEAST_GAIN * abs(excess):
            nearest[case.kind] = excess, case
    return pd.DataFrame(rows)


def draw(space: Search, generator: torch.Generator) -> Case:
    """A case with each part drawn alone."""
    chosen = {key: _pick(values, generator) for key, values in space.choose.items()}
    return Case(chosen, Weights.draw(generator) if space.weights else None)


def changed(space: Search, case: Case, generator: torch.Generator) -> Case:
    """The case with one part drawn anew: a choice, or something of its weights."""
    open_ = [key for key, values in space.choose.items() if isinstance(values, Range) or len(values) > 1]
    parts = [*open_, *([""] * 3 if space.weights else [])]
    if part := _pick(parts, generator):
        return replace(case, chosen=case.chosen | {part: _pick(space.choose[part], generator)})
    return replace(case, weights=case.weights and case.weights.changed(generator))


def _pick(values: list | Range, generator: torch.Generator) -> Any:
    """One of a list, or a number of a range."""
    if isinstance(values, list):
        return values[int(torch.randint(len(values), (), generator=generator))]
    return values.low + _unit(generator) * (values.high - values.low)


def _unit(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator))


def _drawn(name: str, generator: torch.Generator) -> Any:
    if name in CHOICES:
        return _pick(CHOICES[name], generator)
    if name == "scale":
        return 10 ** (2 * _unit(generator) - 1)
    size = 10 ** (3 * _unit(generator) - 2)
    return 0.0 if _unit(generator) < 1 / 3 else size if _unit(generator) < 0.5 else -size


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
