"""A sequence of tasks inside one run: the same images, with their pixels or their classes in a new order for each."""

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from normexp.data.rows import Batch, keyed_generator

Kind = Literal["permuted", "relabeled"]


class Tasks:
    """Changes a batch (N, C, H, W), (N,) into that of its task. Task 0 has the data as they are, and each later task a
    random order of its own:

    - permuted: x[:, :, p], where p puts the H W places of an image in another order, the same in every channel
      (Goodfellow et al. 2013, arXiv:1312.6211)
    - relabeled: p[y], where p puts the classes in another order

    All tasks are equally hard for a network that does not know places, such as an MLP. So what it loses from one to
    the next is plasticity (Lyle et al. 2023, arXiv:2303.01486; Dohare et al. 2024).

    Args:
        batches: number of training batches of each task.
        seed: of the orders; every run with it has the same tasks.
    """

    def __init__(self, kind: Kind, batches: int, seed: int, num_classes: int) -> None:
        if batches < 1:
            raise ValueError(f"data.task_batches={batches}: a task has at least one training batch")
        self.kind, self.batches, self.seed, self.num_classes = kind, batches, seed, num_classes

    def __call__(self, batch: Batch, number: int) -> Batch:
        """The batch, as that of the task to which training batch `number` of the run, from 0, belongs."""
        x, y = batch
        if (task := number // self.batches) == 0:
            return batch
        if self.kind == "relabeled":
            return x, new_order(self.seed, task, self.num_classes).to(y.device)[y]
        places = x.flatten(2)  # (N, C, H W)
        return places[:, :, new_order(self.seed, task, places.shape[2]).to(x.device)].view_as(x), y


@lru_cache(maxsize=16)
def new_order(seed: int, task: int, size: int) -> Tensor:
    """A random order of 0 ... size - 1, that of a task."""
    return torch.randperm(size, generator=keyed_generator("task", seed, task))
