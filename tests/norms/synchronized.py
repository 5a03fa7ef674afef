"""One of two processes that train SyncBatchNorm, each on its half of a batch: `synchronized.py RANK STORE`. They are
connected by gloo, on a CPU and on a GPU if there is one."""

import copy
import sys

import torch
import torch.distributed as dist

from normexp.norms import BatchNorm, SyncBatchNorm


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
    for device in ("cpu", "cuda")[: 1 + torch.cuda.is_available()]:
        compare(rank, device)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
