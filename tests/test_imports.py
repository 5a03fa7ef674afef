"""Imports run one way: each part of the package knows only what stands beneath it."""

import ast
import functools
import graphlib
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from forked import call

ROOT = Path(__file__).parents[1]
TORCH = {"torch", "torchvision"}
HEAVY = TORCH | {"pytorch_lightning", "lightning_fabric"}
HYDRA = {"hydra", "omegaconf"}
KNOWS_HYDRA = {
    "cli/train.py",
    "config/command_line.py",
    "config/compose.py",
    "config/run_spec.py",
}

# part -> top-level packages and parts of normexp that it must not import
FORBIDDEN = {
    "norms": HYDRA | {"pytorch_lightning", "torchvision", "pandas"},
    "models": HYDRA | {"pytorch_lightning", "torchvision", "pandas"},
    "models/other_network.py": HYDRA | {"pytorch_lightning", "pandas"},
    "models/sites.py": HYDRA | {"pytorch_lightning", "torchvision", "pandas"},
    "claims/laws": HYDRA | {"pytorch_lightning", "torchvision", "pandas"},
    "data": HYDRA,
    "monitors": HYDRA,
    "optimizers": HYDRA | {"pytorch_lightning", "torchvision", "pandas"},
    "check": HYDRA,
    "training": HYDRA,
    "runs": HYDRA | HEAVY,
    "claims/spec": HYDRA | HEAVY,
    "claims/judge": HYDRA | HEAVY,
    "claims/pages": HYDRA | HEAVY,
    "report": HYDRA | HEAVY,
    "config/settings.py": HYDRA | HEAVY,
    "config/folder.py": HYDRA | HEAVY,
    "config/identity.py": HYDRA | HEAVY,
}
# Files that know nothing of the project, and that every part may use.
EVERYWHERE = (
    "format", "machine", "fork_map", "config/process",
)  # fmt: skip
MAY_USE = {
    **{f"{name}.py": set() for name in EVERYWHERE},
    "models/other_network.py": {"models", "norms"},  # it puts the run's norm in place of the network's
    "norms": {"norms", "config"},  # of the latter the folder of the yaml files alone, see below
    "models": {"models"},
    "models/sites.py": {"norms"},  # the layers that are norms, see below
    "claims/laws": {"claims"},
    "data": {"data"},
    "monitors": {"monitors", "models", "norms"},  # of both the places alone, see below
    "training/lit_model.py": {"optimizers"},
    "optimizers": {"optimizers"},
    "runs": {"runs", "config", "monitors"},  # of the latter a curve in numbers alone, see below
    "config/settings.py": set(),
    "config/identity.py": {"config"},
    "claims/spec": {"claims", "runs", "config"},  # files of configurations, and of the user's own folder
    "claims/judge": {"claims", "runs"},
    "claims/pages": {"claims", "runs", "report", "config"},  # here, too
    "report": {"report", "runs", "claims"},
}

# The rooms from the bottom to the top: none knows what stands above it.
ROOMS = (
    "format", "fork_map", "machine", "optimizers", "schedules", "data", "config", "norms", "models",
    "monitors", "runs", "report", "training", "api", "check", "sweeps", "claims", "figures", "advise", "compare", "cli",
    "__main__",
)  # fmt: skip
FACADE = ("normexp.check.result", "normexp.check.page")  # `result.page()` writes the page of a result

# Files with other rules than the folder around them.
EXCEPT = {"models/other_network.py", "models/sites.py"}


@functools.cache
def imported(path: Path) -> set[str]:
    """Dotted names of everything a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def files_of(part: str) -> list[Path]:
    path = ROOT / "normexp" / part
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


@functools.cache
def graph() -> dict[str, set[str]]:
    """Module of normexp -> those of its modules that it imports, wherever in the file."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "normexp").rglob("*.py")
    }
    arrows = {}
    for module, path in paths.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= inner & set(paths) or {node.module}
        arrows[module] = names & set(paths) - {
            module,
            "normexp",
        }  # of the package itself all take the version
    return arrows


def test_no_room_knows_a_room_above_it():
    floor = {room: place for place, room in enumerate(ROOMS)}
    rooms = {module: module.split(".")[1] for module in graph() if module != "normexp"}
    assert set(rooms.values()) == set(ROOMS)
    up = {
        f"{module} imports {name}"
        for module in rooms
        for name in graph()[module]
        if floor[rooms[name]] > floor[rooms[module]]
    }
    assert not up


def test_no_files_import_each_other_in_a_circle():
    arrows = {module: names - {FACADE[1] if module == FACADE[0] else ""} for module, names in graph().items()}
    assert len(list(graphlib.TopologicalSorter(arrows).static_order())) == len(arrows)


@pytest.mark.parametrize("part", FORBIDDEN)
def test_part_imports_only_what_is_beneath_it(part):
    for path in files_of(part):
        if path.relative_to(ROOT / "normexp").as_posix() in EXCEPT - {part}:
            continue
        names = imported(path)
        outside = {name.split(".")[0] for name in names} & FORBIDDEN[part]
        assert not outside, f"{path} imports {outside}"
        used = {name.split(".")[1] for name in names if name.startswith("normexp.")}
        if part in MAY_USE:
            assert used <= MAY_USE[part] | set(EVERYWHERE), (
                f"{path} imports {used - MAY_USE[part]} of normexp"
            )


def test_the_judge_knows_neither_evidence_nor_pages():
    for path in files_of("claims/judge"):
        rooms = {name.split(".")[2] for name in imported(path) if name.startswith("normexp.claims.")}
        assert rooms <= {"judge", "spec"}, path  # of the latter the types of what it is given


def test_runs_know_of_monitors_how_a_curve_is_summed_up_and_no_more():
    for path in files_of("runs"):
        used = {name for name in imported(path) if name.startswith("normexp.monitors")}
        assert used <= {"normexp.monitors.convergence"}, path


@pytest.mark.parametrize("part", ["norms", "claims/pages", "claims/spec"])
def test_part_knows_of_configurations_where_their_files_lie_and_no_more(part):
    for path in files_of(part):
        used = {name for name in imported(path) if name.startswith("normexp.config")}
        assert used <= {"normexp.config.folder"}, path


@pytest.mark.parametrize(
    ("part", "known"),
    [
        ("models/sites.py", {"normexp.norms.layers"}),
        ("models/other_network.py", {f"normexp.norms.{file}" for file in ("base", "layers", "swap_norms")}),
        ("monitors", {"normexp.models.sites", "normexp.norms.layers"}),
    ],
)
def test_part_knows_of_models_and_norms_where_they_are_and_no_class_of_them(part, known):
    """A monitor finds places by what a model names, or by what a layer is; it asks for no model or norm by name."""
    of = ("normexp.norms",) if part.startswith("models") else ("normexp.norms", "normexp.models")
    for path in files_of(part):
        assert {name for name in imported(path) if name.startswith(of)} <= known, path


def test_only_entry_points_know_hydra():
    for path in (ROOT / "normexp").rglob("*.py"):
        if path.relative_to(ROOT / "normexp").as_posix() not in KNOWS_HYDRA:
            assert not {name.split(".")[0] for name in imported(path)} & HYDRA, path


def test_train_py_names_no_model_norm_or_monitor():
    for path in (ROOT / "train.py", ROOT / "normexp" / "cli" / "train.py"):
        used = {name for name in imported(path) if name.startswith("normexp.")}
        assert not [name for name in used if name.split(".")[1] in ("models", "norms", "monitors", "data")]


@pytest.mark.parametrize(
    "entry",
    ["train.py", "scripts/verify.py", "scripts/report.py"],
)
def test_scripts_are_entries_to_the_commands_of_the_package(entry):
    """Their code is in the package, so that it is the same where the package was installed from a wheel."""
    tree = ast.parse((ROOT / entry).read_text())
    name = Path(entry).stem
    assert {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} - {"pathlib"} == {
        f"normexp.cli.{name}",
        "normexp.config.process",
    }
    assert not [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("train", ("torch", "pytorch_lightning")),
        ("normexp.cli.main", ("torch", "pytorch_lightning", "hydra", "pandas")),
        ("normexp.cli.report", ("torch", "pytorch_lightning", "hydra", "pandas")),
        ("normexp.norms, normexp.monitors", ("pytorch_lightning", "hydra", "omegaconf")),
    ],
)
def test_import_loads_only_what_is_needed(module, absent):
    """In a fresh process. `--help` of a command is answered before torch and Lightning, which take seconds."""
    code = f"import sys; import {module}; print([m for m in {absent} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.integration
def test_a_law_is_judged_without_lightning(tmp_path):
    """Lightning takes more time than the law."""
    code = (
        "import sys; from normexp.cli.verify import main; "
        f"print(main(['claim=S36', 'out={tmp_path}']), 'pytorch_lightning' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "0 False"


def test_each_monitor_is_imported_where_it_is_asked_for():
    found = call(import_monitors)
    assert (found.returncode, found.stderr) == (0, "")


def import_monitors():
    for name in [name for name in sys.modules if name.startswith("normexp.monitors")]:
        del sys.modules[name]
    monitors = importlib.import_module("normexp.monitors")
    assert "normexp.monitors.base" not in sys.modules
    importlib.import_module("normexp.monitors.convergence")
    assert "normexp.monitors.loss_landscape" not in sys.modules
    assert not [name for name in monitors.__all__ if not callable(getattr(monitors, name))]
    assert set(monitors.__all__) <= set(dir(monitors))


def test_tests_and_benchmarks_do_not_edit_the_path():
    """They are packages or lie beside what they import; an entry of scripts/ may add the checkout that it lies in."""
    editing = [
        path.relative_to(ROOT).as_posix()
        for folder in ("normexp", "hydra_plugins", "scripts", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if ".path" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "path" and getattr(node.value, "id", "") == "sys"
    ]
    entries = {path.relative_to(ROOT).as_posix() for path in (ROOT / "scripts").glob("*.py")}
    assert set(editing) <= entries | {
        "normexp/cli/main.py"
    }  # the installed script, for the user's own packages


def test_no_file_is_longer_than_four_hundred_lines():
    files = [*(ROOT / "normexp").rglob("*.py"), *(ROOT / "scripts").rglob("*.py"), ROOT / "train.py"]
    long = {
        str(path.relative_to(ROOT)): n for path in files if (n := len(path.read_text().splitlines())) > 400
    }
    assert not long
