"""Keep the separate values of all processes of a run in one checkpoint."""

from typing import Any

import torch.distributed as dist


def of_each_process(value: Any) -> list[Any]:
    """The values of all processes, in their order. Every process must call this."""
    if not (dist.is_available() and dist.is_initialized()):
        return [value]
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def own_of(values: list[Any]) -> Any:
    """This process's value. If there were fewer processes before, another one's."""
    rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
    return values[rank % len(values)]
