"""PowerNorm: the quadratic mean of a channel over the batch, with running statistics in both directions."""

import torch
from torch import Tensor

from normexp.format import require_at_least
from normexp.norms import functional
from normexp.norms.base import DEFAULT_EPS, Affine, Norm, check_kept


class PowerNorm(Norm):
    """y = x / sqrt(phi + eps) * weight + bias. phi is the mean of x^2 over every axis but `channel_dim`.

    During the first `warmup_steps` training batches, phi is that of the batch, and running_phi is the average over all
    batches so far. After them, phi is the running_phi before this batch, and each batch updates it:
        running_phi = ema_keep * running_phi + (1 - ema_keep) * batch.
    In eval mode phi is always running_phi.

    The backward pass treats phi as a constant. In place of the gradient through phi it subtracts a running estimate.
    With z = x / sqrt(phi + eps), g the gradient of z and h = g - nu z,
        gradient of x = h / sqrt(phi + eps),   nu = nu + (1 - gradient_keep) * mean(h z).
    So, by design, the gradient is not the derivative of y.

    `token_scaling` first divides every sample (token) by its own root mean square. The published code does this; the
    paper does not mention it.
    Shape: (N, C), (N, C, H, W), (N, T, C); on tokens the statistics run over T too.
    Source: Shen et al. 2020, PowerNorm. The published code divides the gradient by the phi of the batch, and mixes both
    averages during the warm-up. Here the gradient is divided by the phi of the forward pass, as in the paper.
    """

    batch_statistics = True

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        affine: Affine = "trained",
        ema_keep: float = 0.9,
        gradient_keep: float = 0.9,
        warmup_steps: int = 10000,
        token_scaling: bool = True,
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine=affine)
        check_kept("ema_keep", ema_keep)
        check_kept("gradient_keep", gradient_keep)
        require_at_least("warmup_steps", warmup_steps, 0)
        self.ema_keep, self.gradient_keep = ema_keep, gradient_keep
        self.warmup_steps, self.token_scaling = warmup_steps, token_scaling
        self.mixes_tokens = channel_dim == -1
        self.register_buffer("running_phi", torch.ones(num_features))
        self.register_buffer("running_nu", torch.zeros(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def normalize(self, x: Tensor) -> Tensor:
        x = functional.at_least_float32(x)
        if self.token_scaling:
            x = functional.rms_norm(x, None, None, eps=self.eps)
        if not self.training:
            z = x * functional.along_channels(torch.rsqrt(self.running_phi + self.eps), x)
        else:
            phi = self.training_phi(x.detach())
            scale = functional.along_channels(torch.rsqrt(phi + self.eps), x)
            z = _ApproximateBackward.apply(x, scale, self.running_nu, self.gradient_keep)
        return functional.affine(z, self.weight, self.bias)

    def training_phi(self, x: Tensor) -> Tensor:
        batch = x.square().mean([0, *range(2, x.dim())])
        self.num_batches_tracked.add_(1)
        warming_up = self.num_batches_tracked <= self.warmup_steps
        phi = torch.where(warming_up, batch, self.running_phi)
        batches = self.num_batches_tracked.to(self.running_phi.dtype)
        step = torch.where(warming_up, 1 / batches, 1 - self.ema_keep)
        self.running_phi.add_((batch.to(self.running_phi.dtype) - self.running_phi) * step)
        return phi


class _ApproximateBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, nu, keep):
        z = x * scale
        ctx.nu, ctx.keep = nu, keep
        ctx.save_for_backward(z, scale)
        return z

    @staticmethod
    def backward(ctx, grad):
        z, scale = ctx.saved_tensors
        h = grad - functional.along_channels(ctx.nu.clone(), z) * z
        if not torch.is_grad_enabled():  # a second derivative is a measurement and must not move nu
            mean = (h * z).mean([0, *range(2, z.dim())])
            ctx.nu.add_(mean.to(ctx.nu.dtype), alpha=1 - ctx.keep)
        return h * scale, None, None, None
