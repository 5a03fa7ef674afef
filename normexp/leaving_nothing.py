"""Restore what a call changes in its process."""

import contextlib
import logging
import os
import random
import warnings
from collections.abc import Iterator

LOGGERS = ("pytorch_lightning", "lightning_fabric", "lightning.pytorch")


@contextlib.contextmanager
def leaving_nothing() -> Iterator[None]:
    """Inside this context, a run may set seeds, threads, environment variables, warning filters, logging levels and
    defaults of torch. Afterwards all are restored."""
    import numpy as np
    import torch

    environment, levels = dict(os.environ), {name: logging.getLogger(name).level for name in LOGGERS}
    drawn, format_warning = random.getstate(), warnings.formatwarning
    numbers, threads, kind = np.random.get_state(), torch.get_num_threads(), torch.get_default_dtype()
    deterministic, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    precision, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    try:
        with warnings.catch_warnings(), torch.random.fork_rng():
            yield
    finally:
        for key in os.environ.keys() - environment.keys():
            del os.environ[key]
        os.environ.update(environment)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        random.setstate(drawn)
        warnings.formatwarning = format_warning
        np.random.set_state(numbers)
        torch.set_default_dtype(kind)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.benchmark = benchmark
