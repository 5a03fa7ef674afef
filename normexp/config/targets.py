"""Which classes a configuration may name in `_target_`."""

import pkgutil
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


def resolve_target(path: str, name: str, allowed: tuple[str, ...] = ()) -> Any:
    """The class that a `_target_` names. A config from a stranger must not run anything else, so what counts is
    the object found, not the text: classes of normexp, torch modules, optimizers and schedulers, Lightning parts."""
    try:
        target = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path}._target_={name}: cannot be imported ({error}); check its spelling"
        ) from None
    package = getattr(target, "__module__", "").split(".")[0]
    fits = isinstance(target, type) and (
        package == "normexp"
        or (package == "torch" and issubclass(target, (nn.Module, Optimizer, LRScheduler)))
        or package in ("pytorch_lightning", "lightning_fabric")
    )
    if not fits and not (package in allowed and callable(target)):
        raise ValueError(
            f"{path}._target_={name}: not a class of normexp, torch or Lightning that may be built; "
            f"allow your own package with allow_targets=[{package}]"
        )
    return target
