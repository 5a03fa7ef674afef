"""What watches training and changes nothing: one measure a file, a pure function and a thin callback."""

from normexp.monitors.convergence import convergence

__all__ = ["convergence"]
