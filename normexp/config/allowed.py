"""The user's packages that `_target_` may name. Only the command line can allow them, never a file.

Processes that a run starts (workers of a sweep, ranks of ddp, jobs on a cluster) inherit the list as an environment
variable. Imports neither torch nor Hydra.
"""

import os
import re
from collections.abc import Iterable

VARIABLE = "NORMEXP_ALLOW_TARGETS"
KEY = "allow_targets"
PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def allow_from(arguments: Iterable[str]) -> None:
    """Read `allow_targets=[mine,other]` from a command line, for this process and those that it starts.

    Raises ValueError with one line for a name that is no package's.
    """
    packages: list[str] = []
    for argument in arguments:
        key, equals, value = argument.lstrip("+").partition("=")
        if key == KEY and equals:
            inner = value.strip().removeprefix("[").removesuffix("]")
            packages += [name for part in inner.split(",") if (name := part.strip(" '\""))]
    for name in packages:
        if not PACKAGE.fullmatch(name):
            raise ValueError(f"{KEY}=[{name}]: is no package; write {KEY}=[my_package]")
    os.environ[VARIABLE] = ",".join(packages)


def allowed_packages() -> tuple[str, ...]:
    """The packages that the command line of this process, or of the one that started it, allows."""
    return tuple(name for name in os.environ.get(VARIABLE, "").split(",") if name)


def lies_in(name: str, packages: Iterable[str]) -> bool:
    """Whether a dotted name lies in one of the packages."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)
