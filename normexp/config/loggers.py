"""The places where a run logs, `logger=[tensorboard,wandb]`: their names, and where to look. Imports nothing heavy."""

import importlib.util
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

INSTALLED = ("wandb", "mlflow")  # by the user


def names_of(logger: str | Sequence[str]) -> list[str]:
    """The names in `logger=wandb` or `logger=[tensorboard,wandb]`."""
    return [logger] if isinstance(logger, str) else list(logger)


def check_loggers(logger: str | Sequence[str]) -> None:
    """Raise ValueError with one line for a name that stands twice, or a package that is absent."""
    names = names_of(logger)
    for name in names:
        if name in INSTALLED and importlib.util.find_spec(name) is None:
            raise ValueError(f"logger={name}: {name} is not installed; pip install normexp[{name}]")
    if len(set(names)) < len(names):
        raise ValueError(f"logger=[{','.join(names)}]: names a logger twice; name each once")


def mlflow_store(outputs: str | Path) -> str:
    """Where MLflow keeps its runs: MLFLOW_TRACKING_URI, or the file `<outputs>/mlflow.db`."""
    own = Path(outputs).absolute() / "mlflow.db"
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{own.as_posix()}"


def writes_events(config: dict[str, Any]) -> bool:
    """Whether a run writes TensorBoard's events."""
    given = config.get("logger", "tensorboard")  # runs from before there was the key
    return "tensorboard" in names_of(given)


def how_to_look(config: dict[str, Any], folder: str | Path) -> list[str]:
    """The lines `look: ...` on the screen. wandb prints its own address."""
    commands = [f"tensorboard --logdir {shlex.quote(str(folder))}"] if writes_events(config) else []
    if "mlflow" in names_of(config.get("logger", ())):
        commands.append(f"mlflow ui --backend-store-uri {shlex.quote(mlflow_store(config['outputs']))}")
    return [f"look:   {command}" for command in commands]
