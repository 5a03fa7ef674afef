"""The kernels of torch that layers run instead of the formulas of `functional`, and how those, written for one formula,
compute others too.

Let y = (x - mean) r(v) w + b with the biased variance v and any decreasing r. Let g be the gradient of y. Then x has
the gradient
    w r (g - mean g) + 2 w r' (x - mean) mean(g (x - mean)).
The native backward pass of a layer with inverse deviation s and weight q w gives
    q w s (g - mean g) - q w s^3 (x - mean) mean(g (x - mean)).
They agree for s = sqrt(-2 r' / r) and q = r / s. Then the forward passes agree too: the native layer with s and q w
gives y.
With k = n / (n - correction):
    eps inside, r = (k v + eps)^-1/2:          s = (v + eps / k)^-1/2,   q = k^-1/2, the same for all values;
    eps outside, r = 1 / (sqrt(k v) + eps):    s and q of `eps_outside`.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from normexp.norms import functional
from normexp.norms.functional import affine, at_least_float32

TINY = 1e-30  # added to v before v^-1/2 is taken, which keeps it finite for v = 0


def usable(x: Tensor) -> bool:
    """Whether to call the kernels; not under the compiler, which fuses the written formula but no opaque kernel."""
    return x.device.type in ("cpu", "cuda") and not torch.compiler.is_compiling()


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    eps: float,
    training: bool = False,
    momentum: float = 0.0,
) -> Tensor:
    """`F.batch_norm` without its check that eps is positive: eps=0 is allowed here."""
    cudnn = torch.backends.cudnn.enabled
    return torch.batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, cudnn)


def eps_outside(rstd: Tensor, eps: float, k: float) -> tuple[Tensor, Tensor]:
    """s and q from v^-1/2: with t = sqrt(k) + eps v^-1/2, r = v^-1/2 / t, q = (t sqrt(k))^-1/2 and s = r / q."""
    c = math.sqrt(k)
    q = (rstd * eps).add_(c).mul_(c).rsqrt_()
    return rstd * q * c, q


def group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    eps: float,
    correction: int = 0,
    eps_position: str = "inside",
) -> Tensor:
    """`functional.group_norm` for the deviation l2 by torch's kernels, 1.8 to 6 times as fast as the formula. One group
    of (N, C) is LayerNorm."""
    if x.dim() == 2 and groups > 1:
        # torch's kernel is slow when a channel has one value, so groups become rows of LayerNorm.
        rows = x.unflatten(1, (groups, -1)).flatten(0, 1)  # (N, C) -> (N G, C/G)
        y = group_norm(rows, 1, None, None, eps=eps, correction=correction, eps_position=eps_position)
        return affine(y.view(x.shape), weight, bias)
    if eps_position == "outside":
        return _eps_outside(x, groups, weight, bias, eps, correction)
    if x.dim() == 2:
        return layer_norm(x, weight, bias, eps=eps, correction=correction)
    n, channels = x.shape[1:].numel() // groups, x.shape[1]
    x, weight, bias, eps = _rescaled(x, weight, bias, eps, correction, n=n, channels=channels)
    x = centered(x, groups) if cancels(x) else x
    # Not F.group_norm: it refuses one sample with one value in a group. Here the output is then the bias.
    return torch.group_norm(x, groups, weight, bias, eps)


def cancels(x: Tensor) -> bool:
    """Whether torch's group norm loses digits: on a CPU, where the channels of a position lie together in memory
    (channels_last), it computes the variance as E[x^2] - E[x]^2."""
    return x.device.type == "cpu" and x.dim() > 3 and x.stride(1) <= x.stride(-1)


def centered(x: Tensor, groups: int) -> Tensor:
    """x minus the mean of its group. Its group norm has the output and the gradients of x's."""
    if groups == 1:
        return x - x.detach().mean([*range(1, x.dim())], keepdim=True)
    means = x.detach().mean([*range(2, x.dim())]).unflatten(1, (groups, -1)).mean(2)
    return x - _along_groups(means, x)


def layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float, correction: int = 0
) -> Tensor:
    """`group_norm` for one group and eps inside the root, with channels at the last axis."""
    channels = x.shape[-1]
    x, weight, bias, eps = _rescaled(x, weight, bias, eps, correction, n=channels, channels=channels)
    return F.layer_norm(x, (channels,), weight, bias, eps)


def _rescaled(x, weight, bias, eps, correction, *, n, channels):
    """Arguments with which the native kernel divides by n - correction, in float32 where the kernel needs it."""
    if correction:
        keep = (n - correction) / n
        eps = eps * keep
        weight = x.new_full((channels,), keep**0.5) if weight is None else weight * keep**0.5
    if weight is None and bias is not None:
        weight = torch.ones_like(bias)  # with half precision inputs the kernels take both parameters or none
    # On a GPU the kernels do not mix types. On a CPU they mix some, and LayerNorm sums the gradients of weight and bias
    # in the type of x: in bfloat16 a sum over 4,096 tokens is off by three quarters.
    if not x.is_cuda or correction or (weight is not None and weight.dtype != x.dtype):
        x, weight, bias = (p if p is None else at_least_float32(p) for p in (x, weight, bias))
    return x, weight, bias, eps


def _eps_outside(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, correction: int
) -> Tensor:
    if not usable(x):
        options = {"eps": eps, "correction": correction, "eps_position": "outside"}
        return functional.group_norm(x, groups, weight, bias, **options)
    x = at_least_float32(x)
    x = centered(x, groups) if cancels(x) else x
    weight = x.new_ones(x.shape[1]) if weight is None else at_least_float32(weight)
    bias = x.new_zeros(x.shape[1]) if bias is None else at_least_float32(bias)
    return _GroupNormEpsOutside.apply(x, weight, bias, groups, eps, correction)[0]


class _GroupNormEpsOutside(torch.autograd.Function):
    """y = (x - mean) / (std + eps) * weight + bias; (N, C) has one group, (N, C, ...) any number.

    The other outputs are mean and v^-1/2, (N, G).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, bias, groups, eps, correction):
        y, mean, rstd = _native_forward(x, weight, groups, TINY)
        s, q = eps_outside(rstd, eps, _ratio(x, groups, correction))
        y.mul_(_along_groups(s * q / rstd, y))
        return y.add_(functional.along_channels(bias, y)), mean, rstd

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        x, weight, _, ctx.groups, ctx.eps, ctx.correction = inputs
        ctx.save_for_backward(x, weight, *outputs[1:])
        ctx.mark_non_differentiable(*outputs[1:])

    @staticmethod
    def backward(ctx, grad, *_):
        x, weight, mean, rstd = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted: only the formula has one

            def formula(x, weight, bias):
                options = {"eps": ctx.eps, "correction": ctx.correction, "eps_position": "outside"}
                return functional.group_norm(x, ctx.groups, weight, bias, **options)

            return *torch.func.vjp(formula, x, weight, torch.zeros_like(weight))[1](grad), None, None, None
        s, q = eps_outside(rstd, ctx.eps, _ratio(x, ctx.groups, ctx.correction))
        # The native backward pass loses digits when |mean| is large against the deviation. So pass x - mean and mean 0.
        centered, scaled = x - _along_groups(mean, x), grad * _along_groups(q, x)
        grad_x, grad_weight = _native_backward(scaled, centered, s, weight, ctx.groups)
        return grad_x, grad_weight, grad.sum([0, *range(2, x.dim())]), None, None, None


def _ratio(x: Tensor, groups: int, correction: int) -> float:
    n = x.shape[1:].numel() // groups
    return n / (n - correction)


def _along_groups(values: Tensor, x: Tensor) -> Tensor:
    """One value per group, (N, G), repeated for each channel of x: (N, C, 1, ...), or (N, 1, ...) for one group."""
    if 1 < values.shape[1] < x.shape[1]:
        values = values.repeat_interleave(x.shape[1] // values.shape[1], 1)
    return values.view(*values.shape[:2], *[1] * (x.dim() - 2))


def _native_forward(x: Tensor, weight: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    if x.dim() == 2:
        return torch.native_layer_norm(x, x.shape[1:], weight, None, eps)
    n, channels = x.shape[:2]
    x = x.contiguous(memory_format=_layout(x))
    return torch.native_group_norm(x, weight, None, n, channels, x.shape[2:].numel(), groups, eps)


def _native_backward(
    grad: Tensor, x: Tensor, rstd: Tensor, weight: Tensor, groups: int
) -> tuple[Tensor, Tensor]:
    """Gradients of x, which has mean 0, and of the weight."""
    mean, mask = torch.zeros_like(rstd), [True, True, False]
    if x.dim() == 2:
        backward = torch.ops.aten.native_layer_norm_backward
        return backward(grad, x, x.shape[1:], mean, rstd, weight, None, mask)[:2]
    n, channels = x.shape[:2]
    layout = _layout(x)
    grad, x = grad.contiguous(memory_format=layout), x.contiguous(memory_format=layout)
    backward = torch.ops.aten.native_group_norm_backward
    return backward(grad, x, mean, rstd, weight, n, channels, x.shape[2:].numel(), groups, mask)[:2]


def _layout(x: Tensor) -> torch.memory_format:
    """The memory format of x. GroupNorm's kernels read every argument in it, and on a GPU row by row."""
    return torch.channels_last if x.dim() == 4 and cancels(x) else torch.contiguous_format


def batch_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each channel, (C), detached: `normalize_batch` adds their gradient."""
    return torch.batch_norm_update_stats(at_least_float32(x.detach()), None, None, 0.0)


def normalize_batch(
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
    """`functional.batch_norm`, 2 to 4 times as fast, with the gradient through `mean, var = batch_statistics(x)`.
    It applies `correction`."""
    x = at_least_float32(x)
    weight = x.new_ones(x.shape[1]) if weight is None else at_least_float32(weight)
    bias = x.new_zeros(x.shape[1]) if bias is None else at_least_float32(bias)
    n = x.numel() // x.shape[1]
    k = n / (n - correction)
    if eps_position == "inside":
        s, q = torch.rsqrt(var + eps / k), torch.full_like(var, k**-0.5)
    else:
        s, q = eps_outside(torch.rsqrt(var + TINY), eps, k)
    return _Normalize.apply(x, weight, bias, mean, s, q, eps, correction, eps_position)


class _Normalize(torch.autograd.Function):
    """y = (x - mean) s q weight + bias, with the backward pass of the native layer."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, bias, mean, s, q, eps, correction, eps_position):
        return torch.native_batch_norm(x, weight * q, bias, mean, s**-2, False, 0.0, 0.0)[0]

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        x, weight, _, mean, s, q, ctx.eps, ctx.correction, ctx.eps_position = inputs
        ctx.save_for_backward(x, weight, mean, s, q)

    @staticmethod
    def backward(ctx, grad):
        x, weight, mean, s, q = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted: only the formula has one

            def formula(x, weight, bias):
                mean, var = functional.moments(x, [0, *range(2, x.dim())], ctx.correction)
                options = {"eps": ctx.eps, "eps_position": ctx.eps_position}
                return functional.batch_norm(x, mean.flatten(), var.flatten(), weight, bias, **options)

            shift = torch.zeros_like(weight)
            grad_x, grad_weight, grad_bias = torch.func.vjp(formula, x, weight, shift)[1](grad)
        else:
            grad_x, grad_weight, grad_bias = torch.ops.aten.native_batch_norm_backward(
                grad, x, weight * q, None, None, mean, s, True, 0.0, [True, True, True]
            )
            grad_weight = grad_weight * q
        return grad_x, grad_weight, grad_bias, None, None, None, None, None, None


def rms_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    """`functional.rms_norm` over all of a sample's values, 1.7 to 2.5 times as fast."""
    if x.dim() == 2:
        return rms_norm_last(x, weight, bias, eps=eps)
    positions = x.shape[2:].numel()
    # (C) -> (n)
    weight, bias = (None if p is None else p.repeat_interleave(positions) for p in (weight, bias))
    return rms_norm_last(x.flatten(1), weight, bias, eps=eps).view(x.shape)


def rms_norm_last(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    """`functional.rms_norm` over the last axis alone; weight and bias have its length."""
    x = at_least_float32(x)
    weight = x.new_ones(x.shape[-1]) if weight is None else at_least_float32(weight)
    # On a GPU torch has a kernel.
    y = F.rms_norm(x, x.shape[-1:], weight, eps) if x.is_cuda else _RMSNorm.apply(x, weight, eps)[0]
    return y if bias is None else y + bias


class _RMSNorm(torch.autograd.Function):
    """y = x r weight over the last axis. The second output is r = 1 / sqrt(mean(x^2) + eps), (..., 1)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, eps):
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        r = torch.addcmul(torch.full_like(norm, eps), norm, norm, value=1 / x.shape[-1]).rsqrt_()
        return (x * weight).mul_(r), r

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        x, weight, ctx.eps = inputs
        ctx.save_for_backward(x, weight, outputs[1])
        ctx.mark_non_differentiable(outputs[1])

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
