"""How much of a data set is held in which form, and where."""

import torch

SMALL = 2**26  # bytes of a split that is kept as the numbers that a network takes: a batch is then one copy
NUMBERS, BYTES = 0.1, 1 / 3  # of a GPU's free memory: a split as numbers there, or as bytes


def kept_as_numbers(nbytes: int, device: torch.device) -> bool:
    """Whether a split of so many bytes is kept as numbers on a device."""
    return nbytes <= SMALL or (device.type == "cuda" and nbytes <= NUMBERS * _free(device))


def fits(nbytes: int, device: torch.device) -> bool:
    """Whether a split may lie on a device as a whole; what is no GPU has the memory of the host."""
    return device.type != "cuda" or nbytes <= BYTES * _free(device)


def _free(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0]
