"""`normexp new norm NAME`: the Python file, the yaml and a test of something of your own, to fill in."""

import keyword
import re
import sys
from pathlib import Path
from string import Template

from normexp.config.options import choices, suggest
from normexp.format import tell

TEMPLATES = Path(__file__).parents[1] / "templates"
# kind -> template -> where it goes; $name is snake_case, $class is CamelCase
FILES = {
    kind: {
        f"{kind}.py": "$name.py",
        f"{kind}.yaml": f"configs/{kind}/$name.yaml",
        f"{kind}_test.py": "test_$name.py",
    }
    for kind in ("norm", "model", "monitor")
} | {"claim": {"claim.yaml": "$name.yaml", "claim_test.py": "test_$name.py"}}
USE = {
    "claim": "normexp verify claim=$name.yaml",
    "model": "normexp train --config-dir configs model=$name data=digits allow_targets=[$name]",
    "norm": "normexp train --config-dir configs norm=$name allow_targets=[$name]",
    "monitor": "normexp train --config-dir configs monitor=[light,$name] allow_targets=[$name]",
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
    for path in begin(kind, name, Path()):
        tell(str(path))
    tell(f"test:  python -m pytest test_{name}.py\nuse:   {Template(USE[kind]).substitute(name=name)}")


def begin(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of a kind below a folder; returns their paths.

    Raises ValueError, in one line, for an unknown kind, a name that cannot be one of Python's or is taken, and for a
    file that is there; then nothing is written.
    """
    if kind not in FILES:
        raise ValueError(f"{kind}: nothing to begin; {suggest(kind, list(FILES))}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(
            f"{name}: cannot name a Python file; use lower case letters, digits and underscores: my_{kind}"
        )
    if name in choices(kind) or name in sys.stdlib_module_names or name in ("torch", "numpy", "normexp"):
        raise ValueError(f"{name}: is taken; use another name, such as my_{name}")
    words = {"name": name, "class": "".join(part.capitalize() for part in name.split("_"))}
    files = {}
    for file, place in FILES[kind].items():
        text = (TEMPLATES / f"{file}.txt").read_text()
        files[folder / Template(place).substitute(words)] = Template(text).substitute(words)
    if there := [path for path in files if path.exists()]:
        raise ValueError(f"{there[0]}: is there already; move it or use another name")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(files)
