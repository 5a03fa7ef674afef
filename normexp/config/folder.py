"""The folders of yaml files, the project's and the user's own, and the user's packages that `_target_` may name.

The project's lie at the top of the repository, or in the package if a wheel installed it. A user's own folder,
`--config-dir my_configs`, holds norms, models, data, monitors and claims beside them. Only the command line can allow
packages, never a file. Processes that a command starts (workers of a sweep, ranks of ddp, jobs on a cluster) inherit
both as environment variables. An installed package may bring such a folder, too: its entry points say what is in it,
and it is read only if the command line allows the package. Imports neither torch nor Hydra.
"""

import contextlib
import functools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

PACKAGE_FOLDER = Path(__file__).parents[1]
CARRIED = PACKAGE_FOLDER / "configs"  # in a wheel
CONFIGS = CARRIED if CARRIED.is_dir() else PACKAGE_FOLDER.parent / "configs"
VARIABLE, ALLOWED = "NORMEXP_CONFIG_DIR", "NORMEXP_ALLOW_TARGETS"
# Groups of entry points, normexp.norms ...: NAME = "package" stands for package/norm/NAME.yaml.
BROUGHT = ("norm", "model", "monitor", "claim", "bank")
FOLDERS = {"claim": "claims", "bank": "banks"}  # of a group; Hydra's groups have their own names
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # eight times as fast with libyaml
MOST_VALUES = 100_000  # of a yaml with its aliases written out
TOO_LARGE = f"has more than {MOST_VALUES:,} values once its aliases are written out; use fewer"
READ_AS_ANOTHER = re.compile(r"[-+]?(0[0-7_]+|[0-9_]+(:[0-5]?[0-9])+)")  # octal, and base 60, of YAML 1.1
PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def use_folder(folder: str | Path | None) -> None:
    """Use a folder for this process and those that it starts; None or an empty text uses none. Raises ValueError with
    one line if there is no such folder."""
    if folder and not Path(folder).is_dir():
        raise ValueError(
            f"config_dir={folder}: no such folder; it holds norm/mine.yaml, claims/mine.yaml, ..."
        )
    for path in Path(folder).glob("*/*.yaml") if folder else ():
        if path.parent.name not in FOLDERS.values():  # they have several documents, and their own reader
            parse_yaml(read_text(path), path)
    os.environ[VARIABLE] = str(Path(folder).absolute()) if folder else ""


def own_folder() -> Path | None:
    """The folder in use."""
    return Path(named) if (named := os.environ.get(VARIABLE)) else None


def allow_from(arguments: Iterable[str]) -> None:
    """Read `allow_targets=[mine,other]` from a command line, for this process and those that it starts. Raises
    ValueError with one line for a name that is no package's."""
    pairs = (argument.lstrip("+").partition("=") for argument in arguments)
    packages = [name for key, _, value in pairs if key == "allow_targets" for name in listed(value)]
    for name in packages:
        if not PACKAGE.fullmatch(name):
            raise ValueError(f"allow_targets=[{name}]: is no package; write allow_targets=[my_package]")
    os.environ[ALLOWED] = ",".join(packages)


@contextlib.contextmanager
def using(folder: str | Path | None = None, packages: Iterable[str] = ()) -> Iterator[None]:
    """In this context a folder and packages are in use, if they are given; afterwards what was before. Raises
    ValueError with one line as `use_folder` and `allow_from`."""
    before = {name: os.environ.get(name) for name in (VARIABLE, ALLOWED)}
    try:
        if folder:
            use_folder(folder)
        if named := ",".join(packages):
            allow_from([f"allow_targets=[{named}]"])
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def listed(text: str) -> list[str]:
    """The parts of a list on the command line, with or without brackets and quotes."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return [part for item in inner.split(",") if (part := item.strip(" '\""))]


def allowed_packages() -> tuple[str, ...]:
    """The packages that the command line of this process, or of the one that started it, allows."""
    return tuple(name for name in os.environ.get(ALLOWED, "").split(",") if name)


@functools.cache
def brought() -> dict[tuple[str, str], list[str]]:
    """What installed packages say they bring: (group, name) -> packages. Nothing of theirs is imported or read."""
    from importlib.metadata import entry_points  # slow: it reads a file of each package

    packages: dict[tuple[str, str], list[str]] = {}
    points = entry_points()
    for group in BROUGHT:
        for point in points.select(group=f"normexp.{group}s"):
            packages.setdefault((group, point.name), []).append(point.value)
    return packages


def brought_hint(group: str, name: str) -> str:
    """What to add to a command that names a choice of an installed package which it does not allow; else empty."""
    packages = [p for p in brought().get((group, name), ()) if not lies_in(p, allowed_packages())]
    if not packages:
        return ""
    return f"an installed package brings it; if you trust {packages[0]}, add allow_targets=[{packages[0]}]"


def more_folders() -> list[Path]:
    """The folders beside the project's: the user's own, and those of the installed packages that are allowed."""
    user, allowed = own_folder(), allowed_packages()
    named = [package for packages in brought().values() for package in packages] if allowed else []
    brings = [_folder_of(package) for package in dict.fromkeys(named) if lies_in(package, allowed)]
    return [user, *brings] if user else brings


def _folder_of(package: str) -> Path:
    """The folder of a package, which is not imported. Raises ValueError if there is none."""
    from importlib.util import find_spec

    root, *rest = package.split(".")
    if (spec := find_spec(root)) is None or spec.origin is None:
        raise ValueError(f"allow_targets=[{package}]: is no package with an __init__.py; install it again")
    return Path(spec.origin).parent.joinpath(*rest)


def config_file(group: str, name: str) -> Path | None:
    """The yaml of a choice: of the project, of the user's folder, or of an allowed package. None if there is none."""
    paths = (folder / FOLDERS.get(group, group) / f"{name}.yaml" for folder in (CONFIGS, *more_folders()))
    return next((path for path in paths if path.is_file()), None)


def check_own_name(group: str, name: str) -> None:
    """Raise ValueError with one line for a choice that stands in the user's folder under a name of normexp's, which
    Hydra would take instead."""
    own, ours = ((folder or CONFIGS) / group / f"{name}.yaml" for folder in (own_folder(), None))
    if own.is_file() and ours.is_file() and not own.samefile(ours):
        raise ValueError(f"{own}: {group}={name} is normexp's own; name the file my_{name}.yaml")


def lies_in(name: str, packages: Iterable[str]) -> bool:
    """Whether a dotted name is one of the packages, or lies in one: of keys, `norm.eps` lies in `norm`."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def read_text(path: Path) -> str:
    """The text of a yaml file. Raises ValueError with one line for a file that cannot be read."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is no text in UTF-8; save it as that") from None


def load_yaml(text: str) -> Any:
    """The content of a yaml text, in plain values."""
    return yaml.load(text, LOADER)


def parse_yaml(text: str, path: Path) -> Any:
    """The content of a file's text. Raises ValueError with one line for a text that is no yaml, has a key twice, is
    too large once its aliases are written out, or has a number that is read as another one."""
    try:
        root = yaml.compose(text, LOADER)
        mistake = _mistake_in(root)
        node = None if mistake else load_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).replace('in "<unicode string>", ', "").split())
        raise ValueError(
            f"{path}: cannot be read ({reason}); close brackets and quote text that has a colon"
        ) from None
    if mistake:
        raise ValueError(f"{path}: {mistake}")
    return node


def _mistake_in(root: Any) -> str:
    """What is wrong with a yaml that can be read: its size, a key that stands twice, of which a loader would keep the
    last, or a number that is read as another one. Empty if nothing is."""
    if _size(root, {}) > MOST_VALUES:
        return TOO_LARGE
    waiting = [] if root is None else [root]
    for node in waiting:  # which grows; the size is bounded
        line = f"line {node.start_mark.line + 1}: "
        if isinstance(node, yaml.MappingNode):
            keys = [str(key.value) for key, _ in node.value]
            if twice := next((key for key, n in Counter(keys).items() if n > 1 and key != "<<"), None):
                last = [key for key, _ in node.value if str(key.value) == twice][-1]
                return f"line {last.start_mark.line + 1}: {twice} stands there twice; keep one"
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif node.tag.endswith(":int") and READ_AS_ANOTHER.fullmatch(node.value):
            read = yaml.load(node.value, LOADER)
            return f"{line}{node.value} is read as {read}; write {read}, or the number that you mean"
    return ""


def _size(node: Any, sizes: dict[int, int]) -> int:
    """How many values a node has once its aliases are written out."""
    if id(node) not in sizes:
        sizes[id(node)] = MOST_VALUES + 1  # of a node within itself
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = [part for pair in parts for part in pair] if isinstance(node, yaml.MappingNode) else parts
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[id(node)]
