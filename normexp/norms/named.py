"""A norm by the name of its file in `configs/norm`, without Hydra, for use from Python."""

import functools
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import yaml
from torch import nn

from normexp.arguments import require_choice
from normexp.config.folder import CONFIGS

OURS = re.compile(r"normexp\.norms(\.[a-z_]+)?")


def norm_named(name: str, **options: Any) -> functools.partial[nn.Module]:
    """The factory of `norm=<name>` on the command line: `norm(num_features, channel_dim=1, *, layer=1)`.

    For references such as `${eps}` and `${seed}` in the file, the default of the class is used.

    Args:
        options: they replace those of the file, e.g. `num_groups=8`.

    Raises:
        ValueError: no such name, or an option that the norm does not have.
    """
    known = sorted(path.stem for path in (CONFIGS / "norm").glob("*.yaml"))
    require_choice("norm", name, known)
    node = yaml.safe_load((CONFIGS / "norm" / f"{name}.yaml").read_text())
    module, _, made_of = node.pop("_target_").rpartition(".")
    if not OURS.fullmatch(module):
        raise ValueError(f"norm={name}: its file names {module}.{made_of}, which is no norm of this project")
    made: Callable[..., nn.Module] = getattr(importlib.import_module(module), made_of)
    written = {
        key: value for key, value in node.items() if not key.startswith("_") and "${" not in str(value)
    }
    takes = [p.name for p in inspect.signature(made).parameters.values() if p.kind is p.KEYWORD_ONLY]
    takes.remove("layer")
    for key in options:
        if key not in takes:
            raise ValueError(f"{key}={options[key]}: no option of {name}; use one of {', '.join(takes)}")
    return functools.partial(made, **(written | options))
