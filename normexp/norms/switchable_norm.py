"""Switchable normalization: a learned mixture of the statistics of InstanceNorm, LayerNorm and BatchNorm."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from normexp.norms import functional
from normexp.norms.base import DEFAULT_EPS, Affine, Norm, check_kept

Statistics = Literal["instance", "layer", "batch"]


class SwitchableNorm(Norm):
    """y = (x - sum_k p_k mean_k) / sqrt(sum_k q_k var_k + eps) * weight + bias, k over the statistics to `combine`.

    p = softmax(mean_weight) and q = softmax(var_weight) are learned and start equal. In eval mode the running estimate
    replaces the batch statistics: running = ema_keep * running + (1 - ema_keep) * batch, with correction 0.
    Shape: (N, C, H, W); (N, C) and (N, T, C) have no `instance` statistics. The `layer` of a token is its embedding.
    Source: Luo et al. 2018, Differentiable Learning-to-Normalize via Switchable Normalization.

    Raises:
        ValueError: another number of features, `instance` where nothing is left to normalize over, or training with
            `batch` on one value per channel.
    """

    running_correction = 0

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        affine: Affine = "trained",
        combine: Sequence[str] = ("instance", "layer", "batch"),
        ema_keep: float = 0.9,
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine=affine)
        if not combine or not set(combine) <= set(get_args(Statistics)) or len(set(combine)) < len(combine):
            raise ValueError(
                f"combine={list(combine)}: unknown, or twice; use some of {', '.join(get_args(Statistics))}"
            )
        check_kept("ema_keep", ema_keep)
        self.combine, self.ema_keep = tuple(combine), ema_keep
        self.batch_statistics = "batch" in combine
        self.mixes_tokens = channel_dim == -1 and self.batch_statistics
        self.mean_weight = nn.Parameter(torch.ones(len(combine)))
        self.var_weight = nn.Parameter(torch.ones(len(combine)))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def normalize(self, x: Tensor) -> Tensor:
        x = functional.at_least_float32(x)
        if "instance" in self.combine and x.shape[2:].numel() == 1:
            raise ValueError(
                f"combine={list(self.combine)}: one value per channel and sample leaves `instance` nothing to "
                "normalize over; use norm.combine=[layer,batch]"
            )
        means, variances = zip(*(self.statistics(kind, x) for kind in self.combine), strict=True)
        p, q = self.mean_weight.softmax(0), self.var_weight.softmax(0)
        mean = sum(p[k] * mean for k, mean in enumerate(means))
        var = sum(q[k] * var for k, var in enumerate(variances))
        return functional.affine((x - mean) * torch.rsqrt(var + self.eps), self.weight, self.bias)

    def statistics(self, kind: str, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, shaped to broadcast: instance (N, C, 1, ...), layer (N, 1, ...), batch (C, 1, ...)."""
        if kind != "batch":
            return functional.moments(x, list(range(2 if kind == "instance" else 1, x.dim())))
        if not self.training:
            mean, var = self.running_mean, self.running_var
            return functional.along_channels(mean, x), functional.along_channels(var, x)
        if x.numel() == self.num_features:
            raise ValueError(
                f"x.shape={tuple(x.shape)}: `batch` statistics cannot train on one value per channel; "
                "use a larger batch_size or norm.combine without batch"
            )
        mean, var = functional.moments(x, [0, *range(2, x.dim())])
        for running, batch in ((self.running_mean, mean), (self.running_var, var)):
            running.add_((batch.detach().flatten().to(running.dtype) - running) * (1 - self.ema_keep))
        return mean, var
