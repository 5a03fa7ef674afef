"""How many threads of the processor a run trains on.

Threads share the work of a layer, and wait for each other some hundred times in a step. For a small network that takes
as long as the work itself, and beside another busy process many times as long.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

from normexp.training.build import Parts, rehearse

# Multiplications and additions of a step. Measured on two idle cores of an AMD EPYC (family 26): two threads train the
# default network (6e7) as fast as one does, an MLP on MNIST (1.3e8) in 0.85 of the time, a CNN there (7e8) in 0.65.
SMALL = 1e8
PASSES = 3  # forward, and backward to inputs and to weights


def work_of(parts: Parts) -> float:
    """Multiplications and additions of a batch's forward and backward pass in products and convolutions. It depends on
    the configuration alone, and is found without arithmetic."""
    config = parts.config
    with FlopCounterMode(display=False) as counter, torch.random.fork_rng(devices=[]):
        rehearse(parts.module.model, parts.data, config["batch_size"])
    return float(PASSES * counter.get_total_flops())


def set_threads(parts: Parts) -> None:
    """Take the threads that the configuration names; else one for a small network, as in a sweep; else all it has."""
    asked = parts.config["threads"]
    if asked is None and torch.get_num_threads() > 1 and work_of(parts) < SMALL:
        asked = 1
    if asked is not None:
        torch.set_num_threads(asked)
