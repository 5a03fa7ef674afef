"""What every run imports sooner or later, imported once by the server that forks the processes of a sweep."""

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

if "multiprocessing.forkserver" in " ".join(sys.orig_argv):
    # The server takes seconds to end. A pipe behind the command would wait for it.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
with fast_imports():  # no fork collects this garbage, so its memory stays shared
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
