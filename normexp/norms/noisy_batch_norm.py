"""BatchNorm followed by noise, which brings covariate shift back on purpose."""

import hashlib

import torch
from torch import Tensor

from normexp.arguments import require_at_least
from normexp.norms.base import Affine, EpsPosition
from normexp.norms.batch_norm import BatchNorm


class NoisyBatchNorm(BatchNorm):
    """y = s * BatchNorm(x) + m while training. The distribution of the noise changes at every step:
        per step and channel     mean ~ U(-mean_range, mean_range),   scale ~ U(1, scale_max),
        per value                m ~ U(mean - mean_spread, mean + mean_spread),   s ~ N(scale, scale_spread^2).

    In eval mode the layer is BatchNorm. Shape: as BatchNorm.
    Source: Santurkar et al. 2018, How Does Batch Normalization Help Optimization?, appendix.

    The noise depends on `seed`, `layer` and `num_batches_tracked` alone. It takes nothing from torch's random stream,
    so the arms of a comparison keep the same batches, and a resumed run continues with the same noise.
    Layers of equal size with the same `layer` draw the same noise.
    """

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
        seed: int = 0,
        mean_range: float = 0.5,
        scale_max: float = 1.25,
        mean_spread: float = 0.1,
        scale_spread: float = 0.1,
    ) -> None:
        shared = {"eps": eps, "correction": correction, "eps_position": eps_position, "affine": affine}
        shared |= {"ema_keep": ema_keep, "running_correction": running_correction}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        require_at_least("scale_max", scale_max, 1)
        for argument, value in (
            ("mean_range", mean_range), ("mean_spread", mean_spread), ("scale_spread", scale_spread)
        ):  # fmt: skip
            require_at_least(argument, value, 0)
        self.seed, self.mean_range, self.scale_max = seed, mean_range, scale_max
        self.mean_spread, self.scale_spread = mean_spread, scale_spread

    def from_batch(self, x: Tensor, groups: int) -> Tensor:
        y = super().from_batch(x, groups)
        if x.is_meta:  # only shapes are computed, and the count of steps has no value
            return y
        batch = self.batches.read(self.num_batches_tracked)
        place = f"{self.seed} {self.layer} {self.num_features} {batch}"
        seed = int.from_bytes(hashlib.sha256(place.encode()).digest()[:7])
        generator = torch.Generator(x.device).manual_seed(seed)

        def uniform(*shape: int) -> Tensor:  # U(-1, 1)
            return torch.empty(shape, device=x.device).uniform_(-1, 1, generator=generator)

        per_channel = (1, self.num_features, *[1] * (x.dim() - 2))
        mean = self.mean_range * uniform(*per_channel)
        scale = 1 + (self.scale_max - 1) * (uniform(*per_channel) + 1) / 2
        m = mean + self.mean_spread * uniform(*x.shape)
        normal = torch.empty(x.shape, device=x.device).normal_(generator=generator)
        s = scale + self.scale_spread * normal
        return s * y + m

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, seed={self.seed}, mean_range={self.mean_range}, scale_max={self.scale_max}, "
            f"mean_spread={self.mean_spread}, scale_spread={self.scale_spread}"
        )
