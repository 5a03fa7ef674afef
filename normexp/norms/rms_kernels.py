"""RMSNorm in a closed form: torch's own is a composition on the CPU, several times slower."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from normexp.norms import functional, native
from normexp.norms.functional import affine, at_least_float32


def rms_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    """`functional.rms_norm` over all of a sample's values."""
    if not native.usable(x):
        return functional.rms_norm(x, weight, bias, eps=eps)
    weight = x.new_ones(x.shape[1]) if weight is None else weight
    if x.dim() > 2:  # (N, C, ...) -> (N, n) and (C) -> (n)
        rows, weight = x.flatten(1), weight.repeat_interleave(math.prod(x.shape[2:]))
        return affine(_rows(rows, weight, eps).view(x.shape), None, bias)
    return affine(_rows(x, weight, eps), None, bias)


def _rows(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    x, weight = at_least_float32(x), at_least_float32(weight)
    if x.is_cuda:  # where torch has a kernel
        return F.rms_norm(x, x.shape[1:], weight, eps)
    mean_square = torch.linalg.vector_norm(x.detach(), dim=1, keepdim=True).square() / x.shape[1]
    return _RMSNorm.apply(x, weight, mean_square.add_(eps).rsqrt_(), eps)


class _RMSNorm(native.KernelFunction):
    """y = x r weight for each row of (N, n), where r (N, 1) is 1 / sqrt(mean(x^2) + eps)."""

    @staticmethod
    def forward(x, weight, r, eps):
        return (x * r).mul_(weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, r, ctx.eps = inputs
        ctx.save_for_backward(x, weight, r)

    @staticmethod
    def backward(ctx, grad):
        x, weight, r = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate this: hand over to the formula

            def formula(x, weight):
                return functional.rms_norm(x, weight, None, eps=ctx.eps)

            return *torch.func.vjp(formula, x, weight)[1](grad), None, None
        # LayerNorm's backward for mean 0, and the part of it that would have come from the mean given back.
        grad_x, grad_weight, _ = torch.ops.aten.native_layer_norm_backward(
            grad, x, x.shape[1:], torch.zeros_like(r), r, weight, None, [True, True, False]
        )
        mean_grad = torch.mv(grad, weight).unsqueeze(1)  # (N, 1), times n
        return grad_x.add_(mean_grad.mul_(r), alpha=1 / x.shape[1]), grad_weight, None, None
