"""BatchNorm over the batches of all processes."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.modules._functions import SyncBatchNorm as TorchSyncBatchNorm

from normexp.norms import functional
from normexp.norms.base import Affine
from normexp.norms.batch_norm import BatchNorm


class SyncBatchNorm(BatchNorm):
    """BatchNorm over the joined batch of all processes of a distributed run.

    GPUs use torch's synchronized kernel. Other devices have none, and use the formula with sums over all processes. In
    one process the layer is BatchNorm. Shape and source: as BatchNorm.
    Tests compare two processes with BatchNorm of the joined batch (tests/norms/synchronized.py). Without a GPU they
    replace torch's kernels with copies that run on the CPU.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = 1e-5,
        affine: Affine = "trained",
        ema_keep: float = 0.9,
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine=affine, ema_keep=ema_keep)

    def from_batch(self, x: Tensor, groups: int) -> Tensor:
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        world_size = torch.distributed.get_world_size() if distributed else 1
        if world_size == 1:
            return super().from_batch(x, groups)
        if not x.is_cuda:
            return self.by_formula(x)
        return TorchSyncBatchNorm.apply(
            x, self.weight, self.bias, self.running_mean, self.running_var, self.eps, 1 - self.ema_keep,
            torch.distributed.group.WORLD, world_size,
        )  # fmt: skip

    def by_formula(self, x: Tensor) -> Tensor:
        wide = functional.at_least_float32(x)
        dims = [0, *range(2, x.dim())]
        own = wide.new_tensor(x.numel() // self.num_features)
        n = OverProcesses.apply(own)  # processes may hold different numbers of samples
        mean = OverProcesses.apply(wide.sum(dims)) / n
        centered = wide - functional.along_channels(mean, x)
        var = OverProcesses.apply(centered.square().sum(dims)) / n
        step = 1 - self.ema_keep
        self.running_mean.mul_(1 - step).add_(mean.detach() * step)
        self.running_var.mul_(1 - step).add_(var.detach() * (step * n / (n - 1)))
        return functional.batch_norm(x, mean, var, self.weight, self.bias, eps=self.eps)


class OverProcesses(torch.autograd.Function):
    """Sum of a tensor over all processes. Its gradient is the gradient of the sum of all their losses."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        total = x.detach().clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return OverProcesses.apply(gradient.contiguous())
