"""The words of the command line, made into objects: `my_package:Model`, `file.py:Model`, `timm:NAME`, a run's folder.

`package:name` is imported, and called if it is a class or function. Only the command line names it, never a file.
Weights are loaded with `weights_only=True`.
"""

import pickle
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from normexp.check.inputs import is_batch
from normexp.check.sources import written
from normexp.models.hubs import from_hub, is_hub
from normexp.runs import finished_summary
from normexp.training.result import trained

SHAPE = re.compile(r"\d+(x\d+)+")
MOST = 120  # characters of an error that are shown


def imported(word: str, argument: str) -> Any:
    """The object that `package.module:name` or `file.py:name` names. Raises ValueError with one line if there is
    none."""
    path, _, name = word.partition(":")
    if not name:
        raise ValueError(f"{argument}={word}: write package.module:name, or file.py:name")
    if path.endswith(".py"):
        if not Path(path).is_file():
            raise ValueError(f"{argument}={word}: no such file; write the path from here")
        sys.path.insert(0, str(Path(path).parent))
        path = Path(path).stem
    try:
        return pkgutil.resolve_name(f"{path}:{name}")
    except (Exception, SystemExit) as error:  # a script may end as soon as it is imported
        remedy = "check its spelling, install it, or change to the folder in which it lies"
        raise ValueError(f"{argument}={word}: {shown(error)}; {remedy}") from error


def shown(error: BaseException) -> str:
    """An error's type and words, on one line."""
    return f"{type(error).__name__} ({' '.join(str(error).split())[:MOST]})"


def made(word: str, argument: str, *args: Any) -> Any:
    """What `package.module:name` names; a class or function is called with `args`."""
    target = imported(word, argument)
    if isinstance(target, (nn.Module, torch.Tensor)) or not callable(target):
        return target
    try:
        return target(*args)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{argument}={word}: its call raises {shown(error)}; mend it") from error


def network_named(word: str) -> tuple[nn.Module, Any]:
    """(the network, the data that belongs to it or None) of `package:Model`, a hub's name, or the folder of a run."""
    if ((folder := Path(word)) / "checkpoints").is_dir():
        parts = trained(folder, finished_summary(folder))
        return parts.module, parts.data
    if folder.is_dir():
        raise ValueError(f"NETWORK={word}: holds no run itself; name the folder of one run inside it")
    return from_hub(word) if is_hub(word) else made(word, "NETWORK"), None


def source_named(word: str) -> str:
    """`file:line` in which the class or function of a network is written; empty for one of a hub, or of a run."""
    if is_hub(word) or ":" not in word or (Path(word) / "checkpoints").is_dir():
        return ""
    return written(imported(word, "NETWORK"))


def data_named(value: str) -> Any:
    """The data that a word names: `package:loader`, or a shape, 32x3x224x224, for standard normal numbers. Two with a
    comma are batches: the first is trained on, the second held out; of a loader its first batch."""
    if "," not in value:
        return one_data(value)
    if re.fullmatch(r"\d+(,\d+)+", value):
        raise ValueError(f"--data={value}: a shape is written {value.replace(',', 'x')}")
    parts = [one_data(word) for word in value.split(",")]
    return [part if is_batch(part) else next(iter(part)) for part in parts]


def one_data(word: str) -> Any:
    """The data of one word."""
    if re.fullmatch(r"\d[\dx]*", word) and not SHAPE.fullmatch(word):
        raise ValueError(f"--data={word}: a shape is written 32x3x224x224")
    if not SHAPE.fullmatch(word):
        return made(word, "--data")
    return torch.randn([int(n) for n in word.split("x")], generator=torch.Generator().manual_seed(0))


def state_named(path: Path, argument: str) -> Any:
    """The tensors of a file that torch saved, or of a safetensors file. Raises ValueError with one line if it cannot be
    read."""
    try:
        if Path(path).suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ValueError(f"{argument}={path}: no such file") from None
    except ModuleNotFoundError as error:
        raise ValueError(f"{argument}={path}: needs {error.name}; pip install {error.name}") from None
    except pickle.UnpicklingError:
        raise ValueError(f"{argument}={path}: holds more than tensors; save model.state_dict()") from None
    except Exception as error:
        raise ValueError(
            f"{argument}={path}: cannot be read with weights_only=True ({shown(error)})"
        ) from None
