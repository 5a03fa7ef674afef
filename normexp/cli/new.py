"""`normexp new norm NAME`: the Python file, the yaml and a test of something of your own, to fill in."""

import keyword
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from string import Template

from normexp.config.options import choices, suggest
from normexp.format import tell
from normexp.runs.files import write_text

TEMPLATES = Path(__file__).parents[1] / "templates"
PARTS = ("norm", "model", "monitor")
# End of a template's name -> where its file goes: into a folder of one's own, into a checkout of normexp. $name is
# snake_case, $class is CamelCase.
FILES = {
    ".py": ("$name.py", "normexp/${kind}s/$name.py"),
    ".yaml": ("configs/$kind/$name.yaml", "configs/$kind/$name.yaml"),
    "_test.py": ("test_$name.py", "tests/${kind}s/test_$name.py"),
}
OF_CLAIM = {".yaml": ("$name.yaml",), "_test.py": ("test_$name.py",)}
USE = {
    "model": "model=$name data=digits",
    "norm": "norm=$name",
    "monitor": "monitor=[light,$name]",
}


def new(kind: str = "", name: str = "", /) -> None:
    """Begin something of your own in the present folder: the Python file, the yaml and a test that passes.

    - `normexp new norm NAME`: a layer, written as LayerNorm to begin with
    - `normexp new model NAME`: a network that takes the run's norm
    - `normexp new monitor NAME`: a measure
    - `normexp new claim NAME`: a sentence with its arms; a yaml

    Nothing that exists is overwritten.

    Args:
        kind: norm, model, monitor or claim
        name: in lower case, with underscores: my_norm
    """
    if not name:
        raise ValueError("write normexp new KIND NAME; --help explains")
    paths = begin(kind, name, Path())
    here = kind in PARTS and is_checkout(Path())
    train = "python train.py" if here else "normexp train --config-dir configs"
    use = f"{train} {USE[kind]}" if kind in PARTS else "normexp verify claim=$name.yaml"
    if kind in PARTS and not here:
        use += " allow_targets=[$name]"
    tell(
        *map(str, paths),
        f"test:  python -m pytest {paths[-1]}",
        f"use:   {Template(use).substitute(name=name)}",
    )
    if here:
        tests = f"pytest tests/{kind}s tests/test_configs.py"
        tell(f"next:  CONTRIBUTING.md, recipes; `{tests}` says what is missing")


def begin(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of a kind below a folder; returns their paths.

    Raises ValueError, in one line, for an unknown kind, a name that cannot be one of Python's or is taken, and for a
    file that is there; then nothing is written.
    """
    if kind not in (*PARTS, "claim"):
        raise ValueError(f"{kind}: nothing to begin; {suggest(kind, [*PARTS, 'claim'])}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(
            f"{name}: cannot name a Python file; use lower case letters, digits and underscores: my_{kind}"
        )
    hidden = name in (*sys.stdlib_module_names, "normexp") or PathFinder.find_spec(name)
    if name in choices(kind) or hidden:  # a file of that name would hide the package
        raise ValueError(f"{name}: is taken; use another name, such as my_{name}")
    in_checkout = kind in PARTS and is_checkout(folder)
    names = {"kind": kind, "name": name, "class": "".join(part.capitalize() for part in name.split("_"))}
    files = {}
    for end, targets in (FILES if kind in PARTS else OF_CLAIM).items():
        text = (TEMPLATES / f"{kind}{end}.txt").read_text()
        if in_checkout:
            module = f"normexp.{kind}s.$name"
            text = text.replace("_target_: $name.", f"_target_: {module}.")
            text = re.sub(r"\b(from|import) \$name\b", rf"\1 {module}", text)
        files[folder / Template(targets[in_checkout]).substitute(names)] = Template(text).substitute(names)
    if there := [path for path in files if path.exists()]:
        raise ValueError(f"{there[0]}: is there already; move it or use another name")
    for path in files:  # all before the first text, as one may be refused
        path.parent.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        write_text(path, text)
    return list(files)


def is_checkout(folder: Path) -> bool:
    """Whether a folder is the top of a checkout of normexp."""
    file = folder / "pyproject.toml"
    return file.is_file() and re.search(r'^name = "normexp"$', file.read_text(), re.M) is not None
