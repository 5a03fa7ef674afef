"""What every job imports sooner or later, imported by the server that forks jobs, with the digests of its code. No job
searches it for garbage, so its memory stays shared. A missing module is skipped."""

import atexit
import contextlib
import importlib
import os
import sys

from normexp.config.code import read_ahead
from normexp.config.process import fast_imports

MODULES = [
    "normexp.training.train", "normexp.data", "normexp.models", "normexp.norms",
    "normexp.monitors.activations", "normexp.monitors.charts", "normexp.monitors.gradients", "normexp.schedules",
    "sklearn.datasets", "torch.utils.tensorboard",
]  # fmt: skip

with fast_imports():
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    read_ahead()

if any(
    "multiprocessing.forkserver" in word for word in sys.orig_argv
):  # and this is no import by somebody else
    # The server ends at once: Python takes two seconds to take libraries down, and a pipe behind the command waits.
    atexit.register(os._exit, 0)
