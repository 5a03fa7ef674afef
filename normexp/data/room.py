"""Whether a split fits on a device, and in which form."""

import torch

SMALL = 2**26  # bytes; a split up to this size is kept as the network's numbers, so a batch is one copy
NUMBERS, BYTES = 0.1, 1 / 3  # most of a GPU's free memory that a split may take as numbers, or as bytes


def kept_as_numbers(nbytes: int, device: torch.device) -> bool:
    """Whether a device keeps a split of `nbytes` as numbers."""
    return nbytes <= SMALL or (device.type == "cuda" and nbytes <= NUMBERS * _free(device))


def fits(nbytes: int, device: torch.device) -> bool:
    """Whether a whole split of `nbytes` fits on a device. A device that is no GPU shares the memory of the host."""
    return device.type != "cuda" or nbytes <= BYTES * _free(device)


def _free(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0]
