"""What makes torch's native kernels compute more than the one formula they were written for.

Let y = (x - mean) r(v) w + b with the biased variance v and any r, and let k = n / (n - correction).

Unbiased variance, eps inside the root, is the native kernel with other numbers:
    (x - mean) / sqrt(k v + eps) = k^-1/2 (x - mean) / sqrt(v + eps / k).

Any other r. With g the gradient of y, that of x is
    w r (g - mean g) + 2 w r' (x - mean) mean(g (x - mean)),
and the native backward, fed the inverse deviation s and the weight q, gives
    q s (g - mean g) - q s^3 (x - mean) mean(g (x - mean)).
They agree for s = sqrt(-2 r' / r) and q = w r / s.
"""

import torch
from torch import Tensor


def usable(x: Tensor) -> bool:
    """The compiler fuses the written formula better than it could a call of kernels it cannot look into."""
    return x.device.type in ("cpu", "cuda") and not torch.compiler.is_compiling()


def backward_scale(var: Tensor, eps: float, eps_position: str, k: float) -> Tensor:
    """s of the module's docstring, where `var` = k v.

    inside: r = (k v + eps)^-1/2 and s = sqrt(k) r;   outside: r = 1 / (sqrt(k v) + eps) and s^2 = k r / sqrt(k v).
    """
    if eps_position == "inside":
        return (k / (var + eps)).sqrt()
    std = var.sqrt()
    # At std = 0 the term with s^3 vanishes with x - mean; the floor keeps its factors finite.
    floor = eps * torch.finfo(std.dtype).eps
    return (k / ((std + eps) * std.clamp(min=floor))).sqrt()
