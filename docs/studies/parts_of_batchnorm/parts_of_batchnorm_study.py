"""Which part of BatchNorm helps? BatchNorm with a part of its statistics, or with those of earlier batches."""

from typing import Any

import torch
from torch import Tensor

from normexp.norms import BatchNorm, functional


class PartOfBatchNorm(BatchNorm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias with a part of what BatchNorm takes. Shape: as BatchNorm.

    Args:
        use: `both`; `mean`, so that var + eps is 1; or `deviation`, so that mean is 0 (the deviation is still that
            around the mean).
        detach: whether no gradient flows through the statistics of the batch.
        last: None takes the statistics of the batch; n the mean of those of the last n batches, this one included. No
            gradient flows through them.

    In eval mode the running estimate replaces mean and variance.
    """

    def __init__(
        self, num_features: int, channel_dim: int = 1, *, use: str = "both", detach: bool = False,
        last: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_features, channel_dim, **options)
        if use not in ("both", "mean", "deviation"):
            raise ValueError(f"use={use}: must be both, mean or deviation")
        self.use, self.detach, self.last = use, detach, last
        if last:
            self.register_buffer("memory", torch.zeros(last, 2, num_features))

    def from_batch(self, x: Tensor, groups: int) -> Tensor:
        mean, var = self.statistics(x)
        self.track(mean, var, x)
        if self.detach or self.last:
            mean, var = mean.detach(), var.detach()
        if self.last and not x.is_meta:
            seen = int(self.num_batches_tracked)
            self.memory[(seen - 1) % self.last] = torch.stack([mean, var]).to(self.memory.dtype)
            mean, var = self.memory[: min(seen, self.last)].mean(0)
        return self.applied(x, mean, var)

    def from_population(self, x: Tensor) -> Tensor:
        return self.applied(x, self.running_mean, self.running_var)

    def applied(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        mean = torch.zeros_like(mean) if self.use == "deviation" else mean
        var = torch.ones_like(var) - self.eps if self.use == "mean" else var
        return functional.batch_norm(x, mean, var, self.weight, self.bias, eps=self.eps)
