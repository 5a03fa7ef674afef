"""The packages that `_target_` may name beside the project's own: the command line allows them, never a file.

The drivers hand them on to the processes that they start (workers of a sweep, ranks of ddp, jobs on a cluster), which
inherit them as an environment variable. Knows no torch and no Hydra.
"""

import os
import re
from collections.abc import Iterable

VARIABLE = "NORMEXP_ALLOW_TARGETS"
KEY = "allow_targets"
PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def allow_from(arguments: Iterable[str]) -> None:
    """Take the packages from a command line, `allow_targets=[mine,other]`, for this process and those it starts.

    Raises ValueError, in one line, for what names no package.
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
    """What the command line of this process, or of the one that started it, allows."""
    return tuple(name for name in os.environ.get(VARIABLE, "").split(",") if name)


def lies_in(name: str, packages: Iterable[str]) -> bool:
    """Whether a dotted name lies in one of the packages."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)
