"""Monitors watch training and change nothing. Each measure is one file: a pure function of tensors and a thin callback.

A file is imported when one of its names is first used, because callbacks need Lightning, which takes seconds to import.
"""

import importlib
from typing import TYPE_CHECKING, Any

# Imported now: a later import of the file would replace its function by the module of the same name.
from normexp.monitors.convergence import convergence

if TYPE_CHECKING:
    from normexp.monitors.activations import Activations
    from normexp.monitors.base import Monitor
    from normexp.monitors.batch_statistics import BatchStatistics
    from normexp.monitors.batches import Batches
    from normexp.monitors.charts import Charts
    from normexp.monitors.covariate_shift import CovariateShift
    from normexp.monitors.covariate_shift_proxies import CovariateShiftProxies
    from normexp.monitors.first_not_finite import FirstNotFinite
    from normexp.monitors.gradient_noise import GradientNoiseScale
    from normexp.monitors.gradients import Gradients
    from normexp.monitors.hessian import HessianTopEigenvalue
    from normexp.monitors.internal_covariate_shift import InternalCovariateShift
    from normexp.monitors.measure_once import measure_without_fit
    from normexp.monitors.representation import Representation
    from normexp.monitors.smoothness import Smoothness
    from normexp.monitors.step_monitor import StepMonitor

__all__ = [
    "Activations",
    "BatchStatistics",
    "Batches",
    "Charts",
    "CovariateShift",
    "CovariateShiftProxies",
    "FirstNotFinite",
    "GradientNoiseScale",
    "Gradients",
    "HessianTopEigenvalue",
    "InternalCovariateShift",
    "Monitor",
    "Representation",
    "Smoothness",
    "StepMonitor",
    "convergence",
    "measure_without_fit",
]

_FILES = {
    "Activations": "activations",
    "Monitor": "base",
    "BatchStatistics": "batch_statistics",
    "Batches": "batches",
    "Charts": "charts",
    "CovariateShift": "covariate_shift",
    "CovariateShiftProxies": "covariate_shift_proxies",
    "FirstNotFinite": "first_not_finite",
    "GradientNoiseScale": "gradient_noise",
    "Gradients": "gradients",
    "HessianTopEigenvalue": "hessian",
    "InternalCovariateShift": "internal_covariate_shift",
    "measure_without_fit": "measure_once",
    "Representation": "representation",
    "Smoothness": "smoothness",
    "StepMonitor": "step_monitor",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
