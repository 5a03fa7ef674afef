"""RMSNorm with a backward pass in closed form; on the CPU torch composes it of many calls, several times slower."""

import torch
from torch import Tensor
from torch.nn import functional as F

from normexp.norms import functional
from normexp.norms.functional import at_least_float32
from normexp.norms.kernels import native_scaling


def rms_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    """`functional.rms_norm` over all of a sample's values, 1.7 to 2.5 times as fast."""
    if x.dim() == 2:
        return over_last(x, weight, bias, eps=eps)
    positions = x.shape[2:].numel()
    # (C) -> (n)
    weight, bias = (None if p is None else p.repeat_interleave(positions) for p in (weight, bias))
    return over_last(x.flatten(1), weight, bias, eps=eps).view(x.shape)


def over_last(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    """The same over the last axis alone; weight and bias have its length."""
    x = at_least_float32(x)
    weight = x.new_ones(x.shape[-1]) if weight is None else at_least_float32(weight)
    # On a GPU torch has a kernel.
    y = F.rms_norm(x, x.shape[-1:], weight, eps) if x.is_cuda else _RMSNorm.run(x, weight, eps)
    return y if bias is None else y + bias


class _RMSNorm(native_scaling.KernelFunction):
    """y = x r weight over the last axis. The second output is r = 1 / sqrt(mean(x^2) + eps), (..., 1)."""

    @staticmethod
    def forward(x, weight, eps):
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        r = torch.addcmul(torch.full_like(norm, eps), norm, norm, value=1 / x.shape[-1]).rsqrt_()
        return (x * weight).mul_(r), r

    @staticmethod
    def save(ctx, inputs, outputs):
        x, weight, ctx.eps = inputs
        ctx.save_for_backward(x, weight, outputs[1])

    @staticmethod
    def backward(ctx, grad, *_):
        x, weight, r = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted: only the formula has one

            def formula(x, weight):
                return functional.rms_norm(x.flatten(0, -2), weight, None, eps=ctx.eps).view(x.shape)

            return *torch.func.vjp(formula, x, weight)[1](grad), None
        # LayerNorm's backward pass with mean 0, plus the part that it takes away for the mean.
        mean_grad = torch.matmul(grad, weight).unsqueeze(-1)  # times n
        grad_x, grad_weight, _ = torch.ops.aten.native_layer_norm_backward.default(
            grad, x, x.shape[-1:], torch.zeros_like(r), r, weight, None, [True, True, False]
        )
        return grad_x.add_(mean_grad.mul_(r), alpha=1 / x.shape[-1]), grad_weight, None
