"""BatchNorm over the batches of all processes."""

import torch
from torch import Tensor
from torch.nn.modules._functions import SyncBatchNorm as TorchSyncBatchNorm

from normexp.norms.base import Affine
from normexp.norms.batch_norm import BatchNorm


class SyncBatchNorm(BatchNorm):
    """BatchNorm whose batch is that of all processes of a distributed run, by torch's own synchronized kernel.

    In one process it is BatchNorm. Shape and source: as BatchNorm. Tested by two processes against BatchNorm of the
    joined batch, on machines without a GPU with stand-ins for torch's five kernels (tests/norms/synchronized.py).

    Raises:
        ValueError: several processes on another device than a GPU, which torch's kernel needs.
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
            raise ValueError(
                f"norm=batchnorm_sync: torch synchronizes BatchNorm on GPUs only, not on {x.device.type}; "
                "use norm=batchnorm or one device"
            )
        return TorchSyncBatchNorm.apply(
            x, self.weight, self.bias, self.running_mean, self.running_var, self.eps, 1 - self.ema_keep,
            torch.distributed.group.WORLD, world_size,
        )  # fmt: skip
