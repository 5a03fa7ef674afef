"""The loggers of a run: their names, the packages that they need, and how to look at what they wrote.

Every run writes metrics.csv, because tables and reports read it. So `csv` names nothing more, and `logger=csv` is a run
without TensorBoard's events.
"""

import importlib.util
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGE = {"tensorboard": None, "csv": None, "wandb": "wandb", "mlflow": "mlflow"}


def names_of(logger: str | Sequence[str]) -> list[str]:
    """The names in `logger=wandb` or `logger=[tensorboard,wandb]`."""
    return [logger] if isinstance(logger, str) else list(logger)


def check_loggers(logger: str | Sequence[str]) -> None:
    """Raise ValueError with one line for an unknown name, a name that stands twice, or a package that is absent."""
    names = names_of(logger)
    for name in names:
        if name not in PACKAGE:
            raise ValueError(f"logger={name}: no such logger; choose from {', '.join(PACKAGE)}")
        package = PACKAGE[name]
        if package is not None and importlib.util.find_spec(package) is None:
            raise ValueError(f"logger={name}: {package} is not installed; pip install normexp[{package}]")
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
