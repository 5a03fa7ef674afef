"""The classes that a configuration may name in `_target_`. The name is judged before anything is imported, the class
afterwards.

A configuration may be untrusted and must not run other code. So it may name classes of these kinds, and never
a function: models and norms (torch modules), data modules, optimizers, schedules, the trainer and its parts, monitors
(callbacks). They may come from normexp, `torch.nn`, `torch.optim`, the list LIGHTNING, and packages that the user
allows on the command line or as a Python argument. If one package defines a class and another exports it, both must be
allowed.
"""

import functools
import pkgutil
import re
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import Dataset

from normexp.config.allowed import KEY, allowed_packages, lies_in
from normexp.config.settings import GROUPS

NAME = re.compile(r"(?!__)[A-Za-z_]\w*(\.(?!__)[A-Za-z_]\w*)+", re.ASCII)
HOMES = ("normexp.models", "normexp.norms", "normexp.data", "normexp.schedules", "normexp.monitors")
TORCH = ("torch.nn", "torch.optim")
# Lightning has classes that write, move or delete files (loggers, checkpoints, profilers, their plugins), and callbacks
# that change the training, which monitors must not do. These classes do neither.
LIGHTNING = {
    "pytorch_lightning.Trainer",
    "pytorch_lightning.callbacks.LearningRateMonitor",
    "pytorch_lightning.strategies.DDPStrategy",
    "pytorch_lightning.plugins.TorchSyncBatchNorm",
    "pytorch_lightning.plugins.environments.LightningEnvironment",
    "pytorch_lightning.plugins.environments.SLURMEnvironment",
    "pytorch_lightning.plugins.environments.TorchElasticEnvironment",
}
# Groups whose nodes name torch modules. All others need Lightning, which takes two seconds to import.
OF_TORCH = ("model", "norm")


@functools.cache
def _bases() -> dict[str | None, tuple[type, ...]]:
    """Group -> base classes, one of which its `_target_` must have; None: a node inside a group."""
    from pytorch_lightning import Callback, LightningDataModule, Trainer

    inside = (nn.Module, Optimizer, LRScheduler, LightningDataModule, Dataset, Callback, Trainer)
    return {
        "data": (LightningDataModule,), "optimizer": (Optimizer,), "schedule": (), "trainer": (Trainer,),
        "monitor": (Callback,), None: inside,
    }  # fmt: skip


def _bases_of(group: str | None) -> tuple[type, ...]:
    return (nn.Module,) if group in OF_TORCH else _bases()[group]


def resolve_target(path: str, name: Any, allowed: Iterable[str] | None = None) -> type:
    """The class that `<path>._target_=<name>` names.

    Args:
        path: of the node, e.g. `model` or `monitor.gradients`. A group's own node must name a class of its kind.
        allowed: the user's packages that are allowed; by default those of the command line.

    Raises ValueError with one line for any other name.
    """
    packages = allowed_packages() if allowed is None else tuple(allowed)
    where = f"{path}._target_={name}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"{where}: is no class; write package.module.Class")
    if not _may_import(name, packages):
        raise ValueError(f"{where}: {_remedy(name)}")
    try:
        target = pkgutil.resolve_name(name)
    except Exception as error:  # the import runs a user's code
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{where}: cannot be imported ({reason}); check its spelling") from error
    if not isinstance(target, type):
        raise ValueError(f"{where}: not a class; functions and objects are not built from a configuration")
    if not _defined_where_allowed(target, name, packages):
        raise ValueError(
            f"{where}: is {target.__module__}.{target.__qualname__}, {_remedy(target.__module__)}"
        )
    if _is_abstract(target):
        raise ValueError(f"{where}: is abstract; name a class that is derived from it")
    if not _is_part(target, _group(path)):
        raise ValueError(f"{where}: not a class of the kind that {path} takes ({_kinds(_group(path))})")
    return target


def _is_abstract(target: type) -> bool:
    """Whether a class has abstract methods. It looks at the methods, since not all such classes use ABCMeta."""
    return any(getattr(getattr(target, name, None), "__isabstractmethod__", False) for name in dir(target))


def _may_import(name: str, packages: tuple[str, ...]) -> bool:
    return name in LIGHTNING or lies_in(name, (*HOMES, *TORCH, *packages))


def _defined_where_allowed(target: type, name: str, packages: tuple[str, ...]) -> bool:
    module = target.__module__
    listed = name in LIGHTNING and any(target is part for part in _lightning_parts())
    return listed or lies_in(module, (*HOMES, *TORCH, *packages))


@functools.cache
def _lightning_parts() -> tuple[type, ...]:
    return tuple(pkgutil.resolve_name(name) for name in sorted(LIGHTNING))


def _group(path: str) -> str | None:
    """The group that a path names; None for a node inside a group."""
    group, _, rest = path.partition(".")
    own = "." not in rest and "[" not in path if group == "monitor" else not rest and "[" not in path
    return group if own and group in GROUPS else None


def _is_part(target: type, group: str | None) -> bool:
    called = any("__call__" in vars(base) for base in target.__mro__)  # schedules, factories for weights
    if group == "schedule":
        return called
    if group is not None:
        return issubclass(target, _bases_of(group))
    # The first two questions need no Lightning.
    if called or issubclass(target, nn.Module):
        return True
    return issubclass(target, _bases_of(None)) or any(target is part for part in _lightning_parts())


def _kinds(group: str | None) -> str:
    return ", ".join(base.__name__ for base in _bases_of(group)) or "one that is called with a step"


def _remedy(name: str) -> str:
    root = name.partition(".")[0]
    if root in ("normexp", "torch", "pytorch_lightning", "lightning_fabric"):
        return "not a class of normexp, torch or Lightning that a configuration may build"
    return (
        f"not a class of normexp, torch or Lightning; if you trust that package, add {KEY}=[{root}] to the command "
        "line (no file can allow it)"
    )
