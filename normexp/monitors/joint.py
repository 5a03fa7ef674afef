"""The joint batch of all processes of a run. Monitors measure as if one process had all of it."""

from typing import Any

import torch
import torch.distributed as dist
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor


def processes() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def joint(part: Tensor) -> Tensor:
    """The parts (N, ...) of all P processes, in their order, (P N, ...). Every process must call this."""
    if processes() == 1:
        return part
    own = part.detach().contiguous()
    content = own.flatten().view(torch.uint8)  # gloo does not support every type
    parts = [torch.empty_like(content) for _ in range(processes())]
    dist.all_gather(parts, content)
    return torch.cat(parts).view(own.dtype).view(processes() * own.shape[0], *own.shape[1:])


def joint_batch(batch: Any) -> Any:
    """The batches of all processes, joined along the first axis of each tensor."""
    return apply_to_collection(batch, Tensor, joint)


def norms_over_processes(norms: Tensor) -> Tensor:
    """L2 norms of gradients by activations, for the mean loss over all processes and all their samples. Each process
    gives the norms for its own mean loss and its own samples, (n,)."""
    if processes() == 1:
        return norms
    squared = norms.square()
    dist.all_reduce(squared)
    return squared.sqrt() / processes()
