"""Statistics of one sample on torch's native kernels.

Dividing by n - 1 is the native kernel with other numbers: with keep = (n - 1) / n,
    (x - mean) / sqrt(var / keep + eps) = sqrt(keep) * (x - mean) / sqrt(var + keep * eps).
"""

import math

from torch import Tensor
from torch.nn import functional as F

from normexp.norms import functional


def group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    eps: float,
    correction: int = 0,
    eps_position: str = "inside",
    native: bool = True,
) -> Tensor:
    """`functional.group_norm`, as fast as torch's own; one group of (N, C) is LayerNorm."""
    n = math.prod(x.shape[1:]) // groups
    if n <= correction:
        raise ValueError(
            "correction=1: one value has no unbiased variance; use correction=0 or more features"
        )
    if not native or eps_position == "outside":
        return functional.group_norm(
            x, groups, weight, bias, eps=eps, correction=correction, eps_position=eps_position
        )
    keep = (n - correction) / n
    if correction:
        weight = x.new_full(x.shape[1:2], keep**0.5) if weight is None else weight * keep**0.5
    if groups == 1 and x.dim() == 2:
        return F.layer_norm(x, x.shape[1:], weight, bias, eps * keep)
    return F.group_norm(x, groups, weight, bias, eps * keep)
