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
# End of a template's name -> where its file goes in a folder of one's own, and in a checkout of normexp.
FILES = {".py": "$name.py", ".yaml": "configs/$kind/$name.yaml", "_test.py": "test_$name.py"}
OF_CLAIM = {".yaml": "$name.yaml", "_test.py": "test_$name.py"}
OF_CHECKOUT = FILES | {".py": "normexp/${kind}s/$name.py", "_test.py": "tests/${kind}s/test_$name.py"}
USE = {"model": "model=$name data=digits", "norm": "norm=$name", "monitor": "monitor=[light,$name]"}


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
    use = "normexp verify claim=$name.yaml"
    if kind in PARTS:
        use = f"normexp train --config-dir configs {USE[kind]} allow_targets=[$name]"
    if here := goes_into_checkout(kind, Path()):
        use = f"python train.py {USE[kind]}"
    use = Template(use).substitute(name=name)
    tell(*map(str, paths), f"test:  python -m pytest {paths[-1]}", f"use:   {use}")
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
    here = goes_into_checkout(kind, folder)
    targets = OF_CHECKOUT if here else FILES if kind in PARTS else OF_CLAIM
    names = {"kind": kind, "name": name, "class": "".join(part.capitalize() for part in name.split("_"))}
    names["module"] = f"normexp.{kind}s.{name}" if here else name
    files = {}
    for end, target in targets.items():
        template = Template((TEMPLATES / f"{kind}{end}.txt").read_text())
        files[folder / Template(target).substitute(names)] = template.substitute(names)
    if there := [path for path in files if path.exists()]:
        raise ValueError(f"{there[0]}: is there already; move it or use another name")
    for path in files:  # all before the first text, as one may be refused
        path.parent.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        write_text(path, text)
    return list(files)


def goes_into_checkout(kind: str, folder: Path) -> bool:
    """Whether the files go to the places of the package: a folder is the top of a checkout, and this is no claim."""
    file = folder / "pyproject.toml"
    top = file.is_file() and re.search(r'^name = "normexp"$', file.read_text(), re.M) is not None
    return top and kind in PARTS
