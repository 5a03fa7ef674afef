"""One of two processes that train SyncBatchNorm, each on its half of a batch: `synchronized.py RANK STORE`.

torch's kernels for it exist on GPUs alone; on a CPU our layer goes by the formula, which is tested wherever this runs.
With a GPU both processes then run the kernels on it, connected by gloo, since NCCL wants a GPU each. Without one, the
five kernels are written out below from their definitions; all else, torch's communication and ours, is what runs on
GPUs.
"""

import copy
import sys

import torch
import torch.distributed as dist
from torch import Tensor

from normexp.norms import BatchNorm, SyncBatchNorm


def along(values: Tensor, x: Tensor) -> Tensor:
    return values.view(-1, *[1] * (x.dim() - 2))


def over(x: Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def stats(x, eps):
    mean = x.mean(over(x))
    return mean, ((x - along(mean, x)).square().mean(over(x)) + eps).rsqrt()


def gather_stats_with_counts(x, means, invstds, running_mean, running_var, momentum, eps, counts):
    n, parts = counts.sum(), (counts / counts.sum())[:, None]
    mean = (parts * means).sum(0)
    var = (parts * (invstds**-2 - eps + (means - mean) ** 2)).sum(0)
    running_mean.lerp_(mean, momentum)
    running_var.lerp_(var * n / (n - 1), momentum)
    return mean, (var + eps).rsqrt()


def elemt(x, weight, bias, mean, invstd, eps):
    return (x - along(mean, x)) * along(invstd * weight, x) + along(bias, x)


def backward_reduce(grad, x, mean, invstd, weight, *wanted):
    sum_dy, sum_dy_xmu = grad.sum(over(x)), (grad * (x - along(mean, x))).sum(over(x))
    return sum_dy, sum_dy_xmu, sum_dy_xmu * invstd, sum_dy.clone()


def backward_elemt(grad, x, mean, invstd, weight, sum_dy, sum_dy_xmu, counts):
    n = counts.sum()
    through = along(invstd**2 * sum_dy_xmu / n, x) * (x - along(mean, x))
    return (grad - along(sum_dy / n, x) - through) * along(invstd * weight, x)


def stand_in_for_the_kernels() -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL", "CPU")
    for kernel in (stats, gather_stats_with_counts, elemt, backward_reduce, backward_elemt):
        library.impl(f"batch_norm_{kernel.__name__}", kernel)
    torch.Tensor.is_cuda = property(lambda _: True)
    return library


def step(layer, x, g):
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(g)
    return y.detach(), x.grad


def compare(rank: int, device: str) -> None:
    for shape, channel_dim in (((8, 4), 1), ((8, 4, 3, 2), 1), ((8, 5, 4), -1)):
        torch.manual_seed(0)
        plain = BatchNorm(4, channel_dim).double()
        with torch.no_grad():
            plain.weight.uniform_(0.5, 1.5)
        together, alone = SyncBatchNorm(4, channel_dim).double().to(device), plain.to(device)
        together.load_state_dict(copy.deepcopy(alone.state_dict()))
        for _ in range(2):
            x, g = (torch.randn(shape, dtype=torch.float64).to(device) for _ in range(2))
            mine = slice(0, 3) if rank == 0 else slice(3, 8)  # halves of unequal size
            expected, ours = step(alone, x, g), step(together, x[mine], g[mine])
            for a, b in zip(ours, expected, strict=True):
                torch.testing.assert_close(a, b[mine])
        for p, q in zip(together.parameters(), alone.parameters(), strict=True):
            total = p.grad.cpu()
            dist.all_reduce(total)  # as DistributedDataParallel does it
            torch.testing.assert_close(total, q.grad.cpu())
        torch.testing.assert_close(dict(together.named_buffers()), dict(alone.named_buffers()))
        torch.testing.assert_close(together.eval()(x), alone.eval()(x))


def main(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    compare(rank, "cpu")  # by the formula
    library = None if torch.cuda.is_available() else stand_in_for_the_kernels()
    compare(rank, "cuda" if torch.cuda.is_available() else "cpu")
    dist.barrier()
    dist.destroy_process_group()
    del library


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
