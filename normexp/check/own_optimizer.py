"""The optimizer that a LightningModule makes for itself, read without a training."""

from types import SimpleNamespace
from typing import Any

from pytorch_lightning import LightningModule
from torch import nn

from normexp.monitors.guard import untouched


def optimizer_of(module: nn.Module, given: Any = None) -> tuple[Any, str]:
    """(what a user gave, else what `configure_optimizers` makes, or None; why there is none, or an empty text). Several
    optimizers are one with the groups of all. The module keeps its attributes.

    Raises ValueError with one line if what was given is no optimizer."""
    if given is not None:
        if not (optimizers := flat(given)):
            kind = type(given).__name__
            raise ValueError(f"optimizer={kind}: has no param_groups; pass an optimizer of torch, or several")
        return joined(optimizers), ""
    configure = getattr(module, "configure_optimizers", None)
    inherited = getattr(type(module), "configure_optimizers", None) is LightningModule.configure_optimizers
    if not callable(configure) or inherited:
        return None, ""
    try:
        with untouched(module):
            made = list(flat(configure()))
    except Exception as error:  # any of a user's module, which may ask for a trainer
        message = " ".join(str(error).split())[:120]
        return None, f"the module's configure_optimizers raises {type(error).__name__} here ({message})"
    return joined(made), ""


def joined(optimizers: list[Any]) -> Any:
    """One thing with the groups of all optimizers; None if there is none."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return SimpleNamespace(param_groups=groups) if len(optimizers) > 1 else next(iter(optimizers), None)


def flat(configured: Any) -> list[Any]:
    """The optimizers in what `configure_optimizers` may return: one, several, a dictionary, dictionaries, or
    (optimizers, schedulers)."""
    if hasattr(configured, "param_groups"):
        return [configured]
    if isinstance(configured, dict):
        return flat(configured.get("optimizer"))
    if isinstance(configured, (list, tuple)):
        return [optimizer for part in configured for optimizer in flat(part)]
    return []  # None, or a scheduler
