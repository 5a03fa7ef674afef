"""The classes that a configuration may name, and the objects that it builds.

A name in `_target_` must begin with an allowed prefix, which is judged before anything is imported: the rooms of
normexp whose classes are parts of a run, torch's modules and optimizers, the list LIGHTNING, and packages that the user
allows on the command line or as a Python argument. That is the whole promise about files of others. An allowed package
or module may lie in the folder of `--config-dir`, beside its yaml files; one that is installed comes first."""

import contextlib
import functools
import json
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from normexp.config.folder import allowed_packages, lies_in, own_folder

if TYPE_CHECKING:
    from torch import nn

    from normexp.data.base import DataModule

NAME = re.compile(r"(?!__)[A-Za-z_]\w*(\.(?!__)[A-Za-z_]\w*)+", re.ASCII)
ROOMS = ("models", "norms", "data", "optimizers", "schedules", "monitors")
HOMES = tuple(f"normexp.{room}" for room in ROOMS)
TORCH = ("torch.nn", "torch.optim")
# Lightning has classes that write, move or delete files, and callbacks that change the training. These do neither.
LIGHTNING = {
    "pytorch_lightning.Trainer",
    "pytorch_lightning.callbacks.LearningRateMonitor",
    "pytorch_lightning.strategies.DDPStrategy",
    "pytorch_lightning.plugins.TorchSyncBatchNorm",
    "pytorch_lightning.plugins.environments.LightningEnvironment",
    "pytorch_lightning.plugins.environments.SLURMEnvironment",
    "pytorch_lightning.plugins.environments.TorchElasticEnvironment",
}


def resolve_target(path: str, name: Any) -> type:
    """The class that `<path>._target_=<name>` names. Raises ValueError with one line for any other name."""
    homes = (*HOMES, *TORCH, *allowed_packages())
    where = f"model.path={name}" if path == "model.module" else f"{path}._target_={name}"  # as it is written
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"{where}: is no class; write package.module.Class")
    if name not in LIGHTNING and not lies_in(name, homes):
        raise ValueError(f"{where}: {_remedy(name)}")
    if (folder := own_folder()) and str(folder) not in sys.path and lies_in(name, allowed_packages()):
        sys.path.append(str(folder))
    try:
        target = pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # the import runs a user's code
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{where}: cannot be imported ({reason}); check its spelling") from error
    if not isinstance(target, type):
        raise ValueError(f"{where}: not a class; functions and objects are not built from a configuration")
    if name not in LIGHTNING and not lies_in(target.__module__, homes):  # it came there by an import
        raise ValueError(
            f"{where}: is {target.__module__}.{target.__qualname__}, {_remedy(target.__module__)}"
        )
    return target


def _remedy(name: str) -> str:
    return (
        "not a class of normexp, torch or Lightning that a configuration may build; if you trust that package, add "
        f"allow_targets=[{name.partition('.')[0]}] to the command line (no file can allow it)"
    )


def construct(path: str, node: Any) -> Any:
    """Build the object of a node with a `_target_`, or a factory of it if `_partial_` is true. In lists and other
    nodes, build the nodes inside. `path` is the node's, for messages. Raises ValueError with one line for a class that
    is not allowed or that does not take its options."""
    if isinstance(node, list):
        return [construct(f"{path}[{index}]", value) for index, value in enumerate(node)]
    if not isinstance(node, dict):
        return node
    named = {key: value for key, value in node.items() if not str(key).startswith("_")}
    options = {key: construct(f"{path}.{key}", value) for key, value in named.items()}
    if "_target_" not in node:
        return options
    target = resolve_target(path, node["_target_"])
    if node.get("_partial_", False):
        return functools.partial(target, **options)
    with refused(path, target.__name__):
        return target(**options)


def build_model(config: dict[str, Any], data: Any) -> "nn.Module":
    """The model with its initial weights, for data of this `input_shape` and `num_classes`. Outside the norms, the
    weights depend on the seed and not on the norm. Raises ValueError with one line."""
    import torch

    make, norm = (construct(group, config[group]) for group in ("model", "norm"))
    try:
        with refused("model", make.func.__name__):
            torch.manual_seed(config["seed"])
            return make(input_shape=data.input_shape, num_classes=data.num_classes, norm=norm)
    except ValueError as error:
        argument = str(error).partition("=")[0]
        group = next((f"{group}." for group in ("norm", "model") if argument in config[group]), "")
        raise ValueError(f"{group}{error}") from error.__cause__


@contextlib.contextmanager
def refused(path: str, what: str, where: str = "with its options") -> Iterator[None]:
    """Turn an error of a part's code into one line that names it, and where it fails. A ValueError of normexp's is a
    message."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, ValueError) and _raised_here(error):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{path}: {what} fails {where}: {reason} (HYDRA_FULL_ERROR=1 shows where)"
        ) from error


def _raised_here(error: BaseException) -> bool:
    """Whether the line that raised an error is one of normexp's."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return lies_in(frame.f_globals.get("__name__", ""), ("normexp",))


def load_data(config: dict[str, Any]) -> "DataModule":
    """The data module of a configuration, loaded."""
    data = construct("data", config["data"])
    data.load()
    return data


class DataOfLaunch:
    """The data that the configurations of one launch name, and the data that was read last, for the run that is built
    next. Files may change until the next launch."""

    def __init__(self) -> None:
        self._fingerprints: dict[str, str] = {}
        self._last: tuple[dict[str, Any], DataModule] | None = None

    def fingerprint(self, config: dict[str, Any]) -> str:
        """The fingerprint of the data of a configuration, which is read for it; "" for a standard data set."""
        node = config["data"]
        if getattr(resolve_target("data", node["_target_"]), "standard", False):
            return ""
        key = json.dumps({**node, "seed": None}, sort_keys=True)
        if key not in self._fingerprints:
            self._last = node, load_data(config)
            self._fingerprints[key] = self._last[1].fingerprint
        return self._fingerprints[key]

    def take(self, config: dict[str, Any]) -> "DataModule | None":
        """The data of a configuration, if they were read last. They are handed out once."""
        last, self._last = self._last, None
        return last[1] if last and last[0] == config["data"] else None
