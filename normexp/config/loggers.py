"""The places where a run logs, `logger=[tensorboard,wandb]`: their names, and where to look. Imports nothing heavy."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# TensorBoard shows tags by alphabet, capitals first: these are what one looks at first.
FIRST = {
    f"{split}/{name}": f"{name.capitalize()}/{split}"
    for split in ("train", "val")
    for name in ("accuracy", "loss")
}


def names_of(logger: str | Sequence[str]) -> list[str]:
    """The names in `logger=wandb` or `logger=[tensorboard,wandb]`."""
    return [logger] if isinstance(logger, str) else list(logger)


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
