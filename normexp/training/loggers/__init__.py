"""Loggers that send the numbers of a run to a service: Weights & Biases, MLflow."""

from normexp.training.loggers.open_loggers import open_loggers
from normexp.training.loggers.service_logger import ServiceLogger

__all__ = ["ServiceLogger", "open_loggers"]
