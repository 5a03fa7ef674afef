"""What watches training and changes nothing: one measure a file, a pure function of tensors and a thin callback."""

from normexp.monitors.activations import Activations
from normexp.monitors.base import Monitor
from normexp.monitors.batch_statistics import BatchStatistics
from normexp.monitors.batches import Batches
from normexp.monitors.charts import Charts
from normexp.monitors.convergence import convergence
from normexp.monitors.covariate_shift import CovariateShift
from normexp.monitors.covariate_shift_proxies import CovariateShiftProxies
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
