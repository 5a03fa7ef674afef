"""BatchNorm with another use of its statistics: renormalized, over all processes, or with noise added."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from normexp.format import require_at_least
from normexp.norms import functional
from normexp.norms.base import DEFAULT_EPS, Affine, EpsPosition
from normexp.norms.batch_norm import BatchNorm, PopulationStatistics
from normexp.norms.functional import inverse_deviation


class BatchRenorm(BatchNorm):
    """y = ((x - mean) / std * r + d) * weight + bias while training. r and d pass no gradient:
        r = std / running_std, clipped to [1 / r_limit, r_limit],
        d = (mean - running_mean) / running_std, clipped to [-d_limit, d_limit].

    The limits are 1 and 0 (BatchNorm) for `warmup_steps` batches. Then they grow linearly to `r_max` at batch `r_steps`
    and to `d_max` at batch `d_steps`. In eval mode the layer is BatchNorm.
    Shape: as BatchNorm.
    Source: Ioffe 2017, Batch Renormalization. The paper averages the std; here the variance is averaged, in torch's
    `running_var`.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        affine: Affine = "trained",
        ema_keep: float = 0.99,
        running_correction: int = 1,
        r_max: float = 3.0,
        d_max: float = 5.0,
        warmup_steps: int = 5000,
        r_steps: int = 40000,
        d_steps: int = 25000,
    ) -> None:
        shared: dict[str, Any] = {"eps": eps, "correction": correction}
        shared |= {"eps_position": eps_position, "affine": affine}
        shared |= {"ema_keep": ema_keep, "running_correction": running_correction}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        if r_max < 1 or d_max < 0:
            raise ValueError(
                f"r_max={r_max}, d_max={d_max}: limits below those of BatchNorm; use r_max>=1, d_max>=0"
            )
        for argument, steps in (("warmup_steps", warmup_steps), ("r_steps", r_steps), ("d_steps", d_steps)):
            require_at_least(argument, steps, 0)
        self.r_max, self.d_max = r_max, d_max
        self.warmup_steps, self.r_steps, self.d_steps = warmup_steps, r_steps, d_steps

    def from_batch(self, x: Tensor, groups: int) -> Tensor:
        mean, var = self.statistics(x)
        batch_var = self.corrected(var.detach(), x)
        inverse_std = inverse_deviation(batch_var, self.eps, self.eps_position)
        inverse_running = inverse_deviation(self.running_var, self.eps, self.eps_position)
        r_limit = 1 + (self.r_max - 1) * self.progress(self.r_steps)
        d_limit = self.d_max * self.progress(self.d_steps)
        r = (inverse_running / inverse_std).clamp(1 / r_limit, r_limit)
        d = ((mean.detach() - self.running_mean) * inverse_running).clamp(-d_limit, d_limit)
        weight = r if self.weight is None else self.weight * r
        bias = d if self.weight is None else self.weight * d
        y = self.standardize(x, mean, var, weight, bias if self.bias is None else self.bias + bias)
        self.track(mean, var, x)
        return y

    def progress(self, last_step: int) -> Tensor:
        """0 during the warm-up, then rising linearly to 1 at `last_step`."""
        step = self.num_batches_tracked - 1 - self.warmup_steps
        return (step / max(1, last_step - self.warmup_steps)).clamp(0, 1)


class SyncBatchNorm(BatchNorm):
    """BatchNorm over the joined batch of all processes of a distributed run.

    In one process the layer is BatchNorm. Shape and source: as BatchNorm.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        affine: Affine = "trained",
        ema_keep: float = 0.9,
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine=affine, ema_keep=ema_keep)

    def from_batch(self, x: Tensor, groups: int) -> Tensor:
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if not distributed or torch.distributed.get_world_size() == 1:
            return super().from_batch(x, groups)
        from torch.distributed.nn.functional import all_reduce  # not in every build of torch

        wide = functional.at_least_float32(x)
        dims = [0, *range(2, x.dim())]
        local = wide.new_tensor(x.numel() // self.num_features)
        n = all_reduce(local)  # processes may hold different numbers of samples
        mean = all_reduce(wide.sum(dims)) / n
        centered = wide - functional.along_channels(mean, x)
        var = all_reduce(centered.square().sum(dims)) / n
        step = 1 - self.ema_keep
        self.running_mean.mul_(1 - step).add_(mean.detach() * step)
        self.running_var.mul_(1 - step).add_(var.detach() * (step * n / (n - 1)))
        return functional.batch_norm(x, mean, var, self.weight, self.bias, eps=self.eps)


class NoisyBatchNorm(BatchNorm):
    """y = s * BatchNorm(x) + m while training. The distribution of the noise changes at every step:
        per step and channel     mean ~ U(-mean_range, mean_range),   scale ~ U(1, scale_max),
        per value                m ~ U(mean - mean_spread, mean + mean_spread),   s ~ N(scale, scale_spread^2).

    In eval mode the layer is BatchNorm. But what training collects behind another noisy layer has the noise in it, so
    the running estimate is not that of the network in eval mode. With `population_statistics="precise"`, which
    `norm=batchnorm_noisy` sets, it is recomputed without noise before each evaluation. Shape: as BatchNorm.
    Source: Santurkar et al. 2018, How Does Batch Normalization Help Optimization?, appendix.

    The noise depends on `seed`, `layer` and `num_batches_tracked` alone. It takes nothing from torch's random stream,
    so the arms of a comparison keep the same batches, and a resumed run continues with the same noise.
    Layers of equal size with the same `layer` draw the same noise. A pass that is repeated from the same buffers has
    the same noise again; `next_noise` moves it on by a step.
    """

    noisy = True

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        affine: Affine = "trained",
        ema_keep: float = 0.9,
        running_correction: int = 1,
        population_statistics: PopulationStatistics = "ema",
        seed: int = 0,
        mean_range: float = 0.5,
        scale_max: float = 1.25,
        mean_spread: float = 0.1,
        scale_spread: float = 0.1,
    ) -> None:
        shared: dict[str, Any] = {"eps": eps, "correction": correction}
        shared |= {"eps_position": eps_position, "affine": affine}
        shared |= {"ema_keep": ema_keep, "running_correction": running_correction}
        shared |= {"population_statistics": population_statistics}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        require_at_least("scale_max", scale_max, 1)
        require_at_least("mean_range", mean_range, 0)
        require_at_least("mean_spread", mean_spread, 0)
        require_at_least("scale_spread", scale_spread, 0)
        self.seed, self.mean_range, self.scale_max = seed, mean_range, scale_max
        self.mean_spread, self.scale_spread = mean_spread, scale_spread

    def from_batch(self, x: Tensor, groups: int) -> Tensor:
        y = super().from_batch(x, groups)
        return y if x.is_meta else self.with_noise(y)  # there the count of steps has no value

    def with_noise(self, x: Tensor) -> Tensor:
        """x with the noise of the last batch, for channels at axis 1."""
        batch = int(self.num_batches_tracked)
        key = f"{self.seed} {self.layer} {self.num_features} {batch}"
        seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7])
        generator = torch.Generator(x.device).manual_seed(seed)

        def uniform(*shape: int) -> Tensor:  # U(-1, 1)
            return torch.empty(shape, device=x.device).uniform_(-1, 1, generator=generator)

        per_channel = (1, self.num_features, *[1] * (x.dim() - 2))
        mean = self.mean_range * uniform(*per_channel)
        scale = 1 + (self.scale_max - 1) * (uniform(*per_channel) + 1) / 2
        m = mean + self.mean_spread * uniform(*x.shape)
        normal = torch.empty(x.shape, device=x.device).normal_(generator=generator)
        s = scale + self.scale_spread * normal
        return s * x + m

    def next_noise(self) -> None:
        """Let the next batch have the noise of the batch after it. The running estimate stays."""
        self.num_batches_tracked.add_(1)
