"""Large dense layers of replicas on a CPU. The gradient of their weights has the layout of the weights at once.

vmap computes that gradient transposed, and autograd then copies it into the layout of the weights. For large weights
this takes longer than the product. The product in the other order has the same bits (a test compares them).
"""

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Weights of a layer in all replicas. For fewer, the calls from Python take longer than the copy.
LARGE = 2**18


def use_in(model: nn.Module) -> None:
    """Replace `forward` of the large dense layers of a model whose weights are stacked, (R, out, in)."""
    for layer in model.modules():
        if type(layer) is nn.Linear and layer.bias is not None and layer.weight.numel() >= LARGE:
            vars(layer)["forward"] = functools.partial(linear, layer)


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """The layer under vmap, with one replica's weights (out, in) and inputs (N, ..., in)."""
    device = x.device.type
    # Autocast does not reach into a Function's backward pass.
    if device != "cpu" or torch.is_autocast_enabled(device):
        return F.linear(x, layer.weight, layer.bias)
    return _OneReplica.apply(x, layer.weight, layer.bias)


class _OneReplica(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        raise RuntimeError("this layer's weights are stacked: it runs under vmap only")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, int]:
        x, weight, bias = (
            part.movedim(dim, 0) if dim is not None else part.expand(info.batch_size, *part.shape)
            for part, dim in zip((x, weight, bias), in_dims, strict=True)
        )
        return _AllReplicas.apply(x, weight, bias), 0


class _AllReplicas(torch.autograd.Function):
    """x (R, N, ..., in), weight (R, out, in), bias (R, out) to (R, N, ..., out)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        rows = x.flatten(1, -2)
        ctx.save_for_backward(rows, weight)
        ctx.shape = x.shape
        return torch.bmm(rows, weight.mT).add_(bias.unsqueeze(1)).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        rows, weight = ctx.saved_tensors
        grad = grad.flatten(1, -2)
        grad_x = torch.bmm(grad, weight).view(ctx.shape) if ctx.needs_input_grad[0] else None
        return grad_x, torch.bmm(grad.mT, rows), grad.sum(1)
