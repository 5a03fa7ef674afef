"""BatchNorm: the statistics of one channel over the batch, and a running estimate of the population's for eval."""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from normexp.norms import functional
from normexp.norms.base import Affine, EpsPosition, Norm


class BatchNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over every axis but `channel_dim`.

    While training, mean and var are the batch's (`correction`) and the running estimate moves towards them,
        running = ema_keep * running + (1 - ema_keep) * batch        (torch's `momentum` is 1 - ema_keep),
    or, with `population_statistics=cumulative`, is the plain average of all batches so far. In eval mode mean and var
    are the running estimate. `running_correction` is the correction of the stored variance: torch normalizes with 0
    and stores with 1.
    Shape: (N, C), (N, C, H, W), (N, T, C); on tokens the statistics run over T too.
    Source: Ioffe, Szegedy 2015, Batch Normalization.

    Raises:
        ValueError: training on one value per channel.
    """

    batch_statistics = True

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = 1e-5,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        affine: Affine = "trained",
        ema_keep: float = 0.9,
        running_correction: int = 1,
        population_statistics: Literal["ema", "cumulative", "precise"] = "ema",
    ) -> None:
        shared = {"eps": eps, "correction": correction, "eps_position": eps_position, "affine": affine}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        if not 0 <= ema_keep <= 1:
            raise ValueError(
                f"ema_keep={ema_keep}: the part of the running estimate that is kept; use 0 to 1"
            )
        if running_correction not in (0, 1):
            raise ValueError(f"running_correction={running_correction}: no such variance; use 0 or 1")
        self.ema_keep, self.running_correction = ema_keep, running_correction
        self.population_statistics = population_statistics
        self.mixes_tokens = channel_dim == -1
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def normalize(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.from_population(x)
        n = math.prod(x.shape) // self.num_features
        if n == 1:
            raise ValueError(
                f"x.shape={tuple(x.shape)}: BatchNorm cannot train on one value per channel; "
                "use a larger batch_size or norm=layernorm"
            )
        self.num_batches_tracked.add_(1)
        if self.native and self.eps_position == "inside" and self.population_statistics != "cumulative":
            return self.native_from_batch(x, n)
        mean, var = functional.moments(
            functional.at_least_float32(x), [0, *range(2, x.dim())], self.correction
        )
        mean, var = mean.flatten(), var.flatten()  # (1, C, 1, ...) -> (C)
        self.track(mean.detach(), var.detach() * (n - self.correction) / (n - self.running_correction))
        return functional.batch_norm(
            x, mean, var, self.weight, self.bias, eps=self.eps, eps_position=self.eps_position
        )

    def native_from_batch(self, x: Tensor, n: int) -> Tensor:
        weight, keep = self.weight, (n - self.correction) / n
        if self.correction:  # dividing by n - 1 is the native kernel with other numbers: see sample_kernels
            weight = x.new_full(x.shape[1:2], keep**0.5) if weight is None else weight * keep**0.5
        stored = (n - 1) / n if self.running_correction == 0 else 1.0
        if stored != 1:  # torch adds var * n / (n - 1): carry the buffer over to that scale and back
            self.running_var.div_(stored)
        y = F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            weight,
            self.bias,
            True,
            1 - self.ema_keep,
            self.eps * keep,
        )
        if stored != 1:
            self.running_var.mul_(stored)
        return y

    def track(self, mean: Tensor, var: Tensor) -> None:
        """Move the running estimate, in place: an assignment would be lost under `torch.func`."""
        cumulative = self.population_statistics == "cumulative"
        step = 1 / self.num_batches_tracked if cumulative else 1 - self.ema_keep
        for running, batch in ((self.running_mean, mean), (self.running_var, var)):
            running.add_((batch.to(running.dtype) - running) * step)

    def from_population(self, x: Tensor) -> Tensor:
        if self.native and self.eps_position == "inside":
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps,
            eps_position=self.eps_position,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, ema_keep={self.ema_keep}, running_correction={self.running_correction}, "
            f"population_statistics={self.population_statistics}"
        )
