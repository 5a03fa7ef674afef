"""The words of the command line, made into objects: `my_package:Model`, `torchvision:resnet18`, a run's folder.

`package:name` is imported, and called if it is a class or function. Only the command line names it, never a file.
Weights are loaded with `weights_only=True`.
"""

import importlib
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

SHAPE = re.compile(r"\d+(x\d+)+")
LIBRARIES = ("torchvision", "timm")


def imported(word: str, argument: str, *args: Any) -> Any:
    """The object that `package.module:name` names; a class or function is called with `args`.

    Raises ValueError with one line if there is none.
    """
    module, _, name = word.partition(":")
    if not re.fullmatch(r"[\w.]+", module, re.ASCII) or not re.fullmatch(r"[\w.]+", name, re.ASCII):
        raise ValueError(f"{argument}={word}: write package.module:name")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{argument}={word}: no module {error.name}; install it, or start `python -m normexp check` in its folder"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{argument}={word}: {found.__name__} has no {part}; check its spelling")
        found = getattr(found, part)
    if isinstance(found, (nn.Module, torch.Tensor)) or not callable(found):
        return found
    try:
        return found(*args)
    except TypeError as error:
        raise ValueError(
            f"{argument}={word}: cannot be called ({error}); name a function that needs no more"
        ) from None


def network_named(word: str) -> tuple[nn.Module, Any]:
    """(the network, the data that belongs to it or None) of `package:Model`, `torchvision:NAME`, `timm:NAME`, a name
    of torchvision, or the folder of a run of this project."""
    if (Path(word) / "checkpoints").is_dir():
        return _of_run(Path(word))
    library, _, name = word.rpartition(":")
    if library and library not in LIBRARIES:
        return imported(word, "MODEL"), None
    if library == "timm":
        try:
            import timm
        except ImportError:
            raise ValueError(f"{word}: timm is not installed; pip install normexp[timm]") from None
        if name not in timm.list_models(name):
            raise ValueError(f"{word}: no such network of timm; timm.list_models() names them")
        return timm.create_model(name, pretrained=False), None
    import torchvision

    if name not in torchvision.models.list_models():
        raise ValueError(
            f"{word}: no network of torchvision, and no run's folder; write package:Model, timm:NAME or a name of "
            "torchvision.models.list_models()"
        )
    return torchvision.models.get_model(name, weights=None), None


def _of_run(folder: Path) -> tuple[nn.Module, Any]:
    """The module and data of a run, with the weights of its last checkpoint."""
    from normexp.config.identity import saved_identity
    from normexp.config.run_spec import saved_spec
    from normexp.runs import read_summary
    from normexp.training.build import build
    from normexp.training.checkpoint import load_checkpoint

    parts = build(saved_spec(folder, read_summary(folder) or {}, []))
    state = load_checkpoint(folder / "checkpoints" / "last.ckpt", saved_identity(folder))
    parts.module.load_state_dict(state["state_dict"])
    return parts.module, parts.data


def data_named(word: str) -> Any:
    """The data that a word names: `package:loader`, or a shape, 32x3x224x224, for standard normal numbers."""
    if SHAPE.fullmatch(word):
        return torch.randn([int(n) for n in word.split("x")], generator=torch.Generator().manual_seed(0))
    return imported(word, "--data")


def state_named(path: Path, argument: str) -> Any:
    """The tensors of a file that torch saved, or of a safetensors file.

    Raises ValueError with one line if it cannot be read.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ValueError(f"{argument}={path}: no such file") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"{argument}={path}: cannot be read with weights_only=True ({reason})") from None
