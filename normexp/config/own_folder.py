"""A user's own folder of configurations, `--config-dir my_configs`: norms, models, data, monitors and claims beside
those of the project. Processes that a command starts inherit it as an environment variable. Imports neither torch nor
Hydra.
"""

import os
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "NORMEXP_CONFIG_DIR"
FLAG, KEY = "--config-dir", "config_dir"


def as_option(arguments: Sequence[str]) -> list[str]:
    """`--config-dir X` and `--config-dir=X` as the option `config_dir=X`. Raises ValueError if X is missing."""
    found: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        flag, equals, value = argument.partition("=")
        if flag not in (FLAG, "-cd"):
            found.append(argument)
        elif value := value if equals else next(waiting, ""):
            found.append(f"{KEY}={value}")
        else:
            raise ValueError(f"{FLAG}: a folder is missing; write {FLAG} my_configs")
    return found


def use_folder(folder: str | Path | None) -> None:
    """Use a folder for this process and those that it starts; None or an empty text uses none.

    Raises ValueError with one line if there is no such folder.
    """
    if folder and not Path(folder).is_dir():
        raise ValueError(f"{KEY}={folder}: no such folder; it holds norm/mine.yaml, claim/M1.yaml, ...")
    os.environ[VARIABLE] = str(Path(folder).absolute()) if folder else ""


def own_folder() -> Path | None:
    """The folder in use."""
    return Path(named) if (named := os.environ.get(VARIABLE)) else None
