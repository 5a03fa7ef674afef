"""How much of a data set is held in which form, and where."""

import torch

SMALL = 2**26  # bytes of a split that is kept as the numbers that a network takes: a batch is then one copy
OF_FREE_MEMORY = 0.5  # of a GPU, for a split


def fits(nbytes: int, device: torch.device) -> bool:
    """Whether a split may lie on a device as a whole."""
    if device.type != "cuda":
        return True  # it has the memory of the host, or does not say
    return nbytes <= OF_FREE_MEMORY * torch.cuda.mem_get_info(device)[0]
