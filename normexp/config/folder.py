"""The folders of yaml files: the project's, at the top of the repository or in the package if a wheel installed it, and
the user's own.

A user's own folder, `--config-dir my_configs`, holds norms, models, data, monitors and claims beside those of the
project. Processes that a command starts inherit it as an environment variable. Imports neither torch nor Hydra.
"""

import os
from collections.abc import Sequence
from pathlib import Path


def configs_folder(package: Path) -> Path:
    """The folder with `train.yaml` and one folder per group. `package` is the folder of `normexp`."""
    carried = package / "configs"  # in a wheel
    return carried if carried.is_dir() else package.parent / "configs"


def project_folder(package: Path) -> Path:
    """The folder of committed files such as the registry: the checkout, or the working directory without one."""
    return Path() if configs_folder(package).parent == package else package.parent


PACKAGE = Path(__file__).parents[1]
CONFIGS = configs_folder(PACKAGE)
PROJECT = project_folder(PACKAGE)


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
