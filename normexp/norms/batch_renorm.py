"""Batch renormalization: the batch's statistics, corrected toward the running estimate."""

from torch import Tensor

from normexp.arguments import require_at_least
from normexp.norms.base import Affine, EpsPosition
from normexp.norms.batch_norm import BatchNorm
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
        eps: float = 1e-5,
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
        shared = {"eps": eps, "correction": correction, "eps_position": eps_position, "affine": affine}
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

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, r_max={self.r_max}, d_max={self.d_max}, warmup_steps={self.warmup_steps}, "
            f"r_steps={self.r_steps}, d_steps={self.d_steps}"
        )
