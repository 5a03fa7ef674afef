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

from normexp.config.folder import allowed_packages, lies_in
from normexp.config.settings import GROUPS

NAME = re.compile(r"(?!__)[A-Za-z_]\w*(\.(?!__)[A-Za-z_]\w*)+", re.ASCII)
HOMES = tuple(
    f"normexp.{room}" for room in ("models", "norms", "data", "optimizers", "schedules", "monitors")
)
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


@functools.cache
def _bases(group: str | None) -> tuple[type, ...]:
    """The classes, one of which a group's `_target_` must have as a base; None: a node inside a group. A law asks for
    models and norms alone, and does not wait two seconds for Lightning."""
    if group in ("model", "norm"):
        return (nn.Module,)
    from pytorch_lightning import Callback, LightningDataModule, Trainer

    inside = (nn.Module, Optimizer, LRScheduler, LightningDataModule, Dataset, Callback, Trainer)
    return {
        "data": (LightningDataModule,), "optimizer": (Optimizer,), "schedule": (), "trainer": (Trainer,),
        "monitor": (Callback,), None: inside,
    }[group]  # fmt: skip


def resolve_target(path: str, name: Any, allowed: Iterable[str] | None = None) -> type:
    """The class that `<path>._target_=<name>` names.

    Args:
        path: of the node, e.g. `model` or `monitor.gradients`. A group's own node must name a class of its kind.
        allowed: the user's packages that are allowed; by default those of the command line.

    Raises ValueError with one line for any other name.
    """
    homes = (*HOMES, *TORCH, *(allowed_packages() if allowed is None else allowed))
    where = f"{path}._target_={name}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"{where}: is no class; write package.module.Class")
    if name not in LIGHTNING and not lies_in(name, homes):
        raise ValueError(f"{where}: {_remedy(name)}")
    try:
        target = pkgutil.resolve_name(name)
    except Exception as error:  # the import runs a user's code
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{where}: cannot be imported ({reason}); check its spelling") from error
    if not isinstance(target, type):
        raise ValueError(f"{where}: not a class; functions and objects are not built from a configuration")
    if name not in LIGHTNING and not lies_in(target.__module__, homes):  # it came there by an import
        raise ValueError(
            f"{where}: is {target.__module__}.{target.__qualname__}, {_remedy(target.__module__)}"
        )
    # Not all classes with abstract methods use ABCMeta.
    if any(getattr(getattr(target, own, None), "__isabstractmethod__", False) for own in dir(target)):
        raise ValueError(f"{where}: is abstract; name a class that is derived from it")
    group = _group(path)
    if not _is_part(target, group) and (group is not None or name not in LIGHTNING):
        kinds = ", ".join(base.__name__ for base in _bases(group)) or "one that is called with a step"
        raise ValueError(f"{where}: not a class of the kind that {path} takes ({kinds})")
    return target


def _group(path: str) -> str | None:
    """The group that a path names; None for a node inside a group."""
    group, _, rest = path.partition(".")
    own = "[" not in path and ("." not in rest if group == "monitor" else not rest)
    return group if own and group in GROUPS else None


def _is_part(target: type, group: str | None) -> bool:
    called = any("__call__" in vars(base) for base in target.__mro__)  # schedules, factories for weights
    if group == "schedule":
        return called
    return (group is None and called) or issubclass(target, _bases(group))


def _remedy(name: str) -> str:
    root = name.partition(".")[0]
    if root in ("normexp", "torch", "pytorch_lightning", "lightning_fabric"):
        return "not a class of normexp, torch or Lightning that a configuration may build"
    return (
        f"not a class of normexp, torch or Lightning; if you trust that package, add allow_targets=[{root}] to the "
        "command line (no file can allow it)"
    )
