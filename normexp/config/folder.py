"""The folders of yaml files, the project's and the user's own, and the user's packages that `_target_` may name.

The project's lie at the top of the repository, or in the package if a wheel installed it. A user's own folder,
`--config-dir my_configs`, holds norms, models, data, monitors and claims beside them. Only the command line can allow
packages, never a file. Processes that a command starts (workers of a sweep, ranks of ddp, jobs on a cluster) inherit
both as environment variables. Imports neither torch nor Hydra.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path


def configs_folder(package: Path) -> Path:
    """The folder with `train.yaml` and one folder per group. `package` is the folder of `normexp`."""
    carried = package / "configs"  # in a wheel
    return carried if carried.is_dir() else package.parent / "configs"


CONFIGS = configs_folder(Path(__file__).parents[1])
VARIABLE, ALLOWED = "NORMEXP_CONFIG_DIR", "NORMEXP_ALLOW_TARGETS"
KEY = "config_dir"
FLAGS = {
    "-cd": "--config-dir", "-cp": "--config-path", "-cn": "--config-name", "-p": "--package", "-c": "--cfg",
}  # fmt: skip
PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def long_flags(arguments: Iterable[str]) -> list[str]:
    """Hydra's flags that take a value as one word each: `-cd X` as `--config-dir=X`."""
    found, waiting = [], iter(arguments)
    for argument in waiting:
        flag, equals, value = argument.partition("=")
        flag = FLAGS.get(flag, flag)
        if flag in FLAGS.values() and (value := value if equals else next(waiting, "")):
            argument = f"{flag}={value}"
        found.append(argument)
    return found


def as_option(arguments: Iterable[str]) -> list[str]:
    """`--config-dir X` as the option `config_dir=X`. Raises ValueError if X is missing."""
    found = [argument.replace("--config-dir=", f"{KEY}=", 1) for argument in long_flags(arguments)]
    if {"--config-dir", "-cd", f"{KEY}="} & set(found):
        raise ValueError("--config-dir: a folder is missing; write --config-dir my_configs")
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


def allow_from(arguments: Iterable[str]) -> None:
    """Read `allow_targets=[mine,other]` from a command line, for this process and those that it starts.

    Raises ValueError with one line for a name that is no package's.
    """
    packages: list[str] = []
    for argument in arguments:
        key, equals, value = argument.lstrip("+").partition("=")
        if key == "allow_targets" and equals:
            inner = value.strip().removeprefix("[").removesuffix("]")
            packages += [name for part in inner.split(",") if (name := part.strip(" '\""))]
    for name in packages:
        if not PACKAGE.fullmatch(name):
            raise ValueError(f"allow_targets=[{name}]: is no package; write allow_targets=[my_package]")
    os.environ[ALLOWED] = ",".join(packages)


def allowed_packages() -> tuple[str, ...]:
    """The packages that the command line of this process, or of the one that started it, allows."""
    return tuple(name for name in os.environ.get(ALLOWED, "").split(",") if name)


def lies_in(name: str, packages: Iterable[str]) -> bool:
    """Whether a dotted name lies in one of the packages."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)
