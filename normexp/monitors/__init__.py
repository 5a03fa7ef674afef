"""Monitors watch training and change nothing. Each measure is one file: a pure function of tensors and a thin callback.

A file is imported when one of its names is first used, because callbacks need Lightning, which takes seconds to import.
"""

import importlib
from typing import Any

# Imported now: a later import of the file would replace its function by the module of the same name.
from normexp.monitors.convergence import convergence

_NAMES = {
    "activations": ("Activations",),
    "base": ("Monitor", "StepMonitor"),
    "batch_statistics": ("Adaptation", "BatchStatistics"),
    "batches": ("Batches",),
    "charts": ("Charts", "measure_without_fit"),
    "covariate_shift": ("CovariateShift", "CovariateShiftProxies", "InternalCovariateShift"),
    "gradients": ("GradientNoiseScale", "Gradients"),
    "loss_landscape": ("AdversarialNoise", "HessianTopEigenvalue", "Smoothness"),
    "representation": ("Representation", "Stream"),
    "own_loop": ("Watch", "trainer_callback", "watch"),
    "run_measure": ("FinishedRun", "RunMeasure"),
}
_FILES = {name: file for file, names in _NAMES.items() for name in names}
__all__ = ["convergence", *_FILES]


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)
    return value
