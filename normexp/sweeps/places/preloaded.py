"""What every job imports sooner or later, imported by the server that forks jobs. No job searches it for garbage, so
its memory stays shared. A missing module is skipped."""

import atexit
import contextlib
import importlib
import os
import sys

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

# The server ends at once: Python takes two seconds to take libraries down, and a pipe behind the command waits. Another
# process that imports this file ends as always.
if "multiprocessing.forkserver" in " ".join(sys.orig_argv):
    atexit.register(os._exit, 0)
