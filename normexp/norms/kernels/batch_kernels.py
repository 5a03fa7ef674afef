"""Statistics over the batch with torch's native kernels; `native_scaling` explains why the results agree."""

import torch
from torch import Tensor

from normexp.norms import functional
from normexp.norms.functional import at_least_float32
from normexp.norms.kernels import native_scaling


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each channel, (C), detached: `normalize` adds their gradient."""
    return _Statistics.run(at_least_float32(x.detach()))


def normalize(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    eps: float,
    correction: int = 0,
    eps_position: str = "inside",
) -> Tensor:
    """`functional.batch_norm`, 2 to 4 times as fast, with the gradient through `mean, var = statistics(x)`.
    It applies `correction`."""
    x = at_least_float32(x)
    weight = x.new_ones(x.shape[1]) if weight is None else at_least_float32(weight)
    bias = x.new_zeros(x.shape[1]) if bias is None else at_least_float32(bias)
    n = x.numel() // x.shape[1]
    k = n / (n - correction)
    if eps_position == "inside":
        s, q = torch.rsqrt(var + eps / k), torch.full_like(var, k**-0.5)
    else:
        s, q = native_scaling.eps_outside(torch.rsqrt(var + native_scaling.TINY), eps, k)
    return _Normalize.run(x, weight, bias, mean, s, q, eps, correction, eps_position)


class _Statistics(native_scaling.KernelFunction):
    generate_vmap_rule = False
    wanted = 2

    @staticmethod
    def forward(x):
        return torch.batch_norm_update_stats(x, None, None, 0.0)

    @staticmethod
    def vmap(info, in_dims, x):
        x = x.movedim(in_dims[0], 1)  # (N, R, C, ...): replicas become channels
        mean, var = _Statistics.apply(x.flatten(1, 2))
        return (mean.view(x.shape[1:3]), var.view(x.shape[1:3])), (0, 0)


class _Normalize(native_scaling.KernelFunction):
    """y = (x - mean) s q weight + bias, with the backward pass of the native layer."""

    @staticmethod
    def forward(x, weight, bias, mean, s, q, eps, correction, eps_position):
        return torch.native_batch_norm(x, weight * q, bias, mean, s**-2, False, 0.0, 0.0)[:1]

    @staticmethod
    def save(ctx, inputs, outputs):
        x, weight, _, mean, s, q, ctx.eps, ctx.correction, ctx.eps_position = inputs
        ctx.save_for_backward(x, weight, mean, s, q)

    @staticmethod
    def backward(ctx, grad):
        x, weight, mean, s, q = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted: only the formula has one
            grad_x, grad_weight, grad_bias = _formula_gradients(ctx, grad, x, weight)
        else:
            grad_x, grad_weight, grad_bias = torch.ops.aten.native_batch_norm_backward(
                grad, x, weight * q, None, None, mean, s, True, 0.0, [True, True, True]
            )
            grad_weight = grad_weight * q
        return grad_x, grad_weight, grad_bias, None, None, None, None, None, None


def _formula_gradients(ctx, grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    def formula(x, weight, bias):
        mean, var = functional.moments(x, [0, *range(2, x.dim())], ctx.correction)
        options = {"eps": ctx.eps, "eps_position": ctx.eps_position}
        return functional.batch_norm(x, mean.flatten(), var.flatten(), weight, bias, **options)

    return torch.func.vjp(formula, x, weight, torch.zeros_like(weight))[1](grad)
