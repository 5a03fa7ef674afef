"""Imports run one way: each part of the package knows only what stands beneath it."""

import ast
import functools
from pathlib import Path

import pytest
from forked import started

import normexp

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "normexp"
HEAVY = {"torch", "torchvision", "pytorch_lightning", "lightning_fabric"}
HYDRA = {"hydra", "omegaconf"}
KNOWS_HYDRA = {"cli/train.py", "config/compose.py", "config/run_spec.py"}
EVERYWHERE = {"format", "machine"}  # they know nothing of the project

# part -> packages and rooms of normexp that it must not import
NEVER = {part: {"pytorch_lightning", "pandas"} for part in ("norms", "models", "claims/laws", "optimizers")}
NEVER |= dict.fromkeys(("runs", "report", "claims/judge", "claims/spec"), HEAVY)
NEVER |= dict.fromkeys(("config/schema.py", "config/identity.py"), HEAVY)
# part -> the rooms of normexp that it may use, beside itself
MAY_USE = {
    "norms": {"config"},  # which composes a norm that `swap` is given by name; see below
    "models": {"norms"},  # the layers that are norms
    "claims/laws": {"claims"},
    "data": set(),
    "optimizers": set(),
    "monitors": {"models", "norms"},  # places, see below
    "runs": {"config", "monitors"},  # of the latter how a curve is summed up
    "report": {"runs", "claims", "config"},
}
# From the bottom to the top: none knows what stands above it.
ROOMS = (
    "format", "machine", "optimizers", "schedules", "data", "config", "norms", "models", "monitors", "runs", "report",
    "training", "api", "check", "sweeps", "claims", "figures", "advise", "compare", "cli", "__main__",
)  # fmt: skip


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
    path = PACKAGE / part
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def rooms_in(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(path) if name.startswith("normexp.")} - EVERYWHERE


@pytest.mark.parametrize("part", NEVER)
def test_part_does_not_load_what_it_does_not_need(part):
    for path in files_of(part):
        assert not {name.split(".")[0] for name in imported(path)} & NEVER[part], path


@pytest.mark.parametrize("part", MAY_USE)
def test_part_imports_only_what_is_beneath_it(part):
    for path in files_of(part):
        assert rooms_in(path) <= MAY_USE[part] | {part.split("/")[0]}, path


def test_norms_know_nothing_but_themselves():
    """They are given to a model. Only `swap` composes one by its name."""
    knowing = [path.name for path in files_of("norms") if rooms_in(path) - {"norms"}]
    assert knowing == ["swap_norms.py"]


def test_no_room_knows_a_room_above_it():
    floor = {room: place for place, room in enumerate(ROOMS)}
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        above = {room for room in rooms_in(path) if own in floor and floor[room] > floor[own]}
        assert not above, path


def test_monitors_know_no_model_and_no_norm_by_name():
    for path in files_of("monitors"):
        of = {name for name in imported(path) if name.startswith(("normexp.norms", "normexp.models"))}
        assert all(name.startswith(("normexp.models.sites", "normexp.norms.layers")) for name in of), path


def test_only_entry_points_know_hydra():
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).as_posix() not in KNOWS_HYDRA:
            assert not {name.split(".")[0] for name in imported(path)} & HYDRA, path


@pytest.mark.integration
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("normexp", ("torch", "pandas", "hydra", "numpy", "matplotlib")),
        ("train", ("torch", "pytorch_lightning")),
        ("normexp.cli.main", ("torch", "pytorch_lightning", "hydra", "pandas")),
        ("normexp.runs", ("torch", "pytorch_lightning", "hydra", "omegaconf")),
        ("normexp.norms, normexp.monitors", ("pytorch_lightning", "hydra", "omegaconf")),
    ],
)
def test_import_loads_only_what_is_needed(module, absent):
    """`--help` of a command is answered before torch and Lightning, which take seconds."""
    code = f"import sys; import {module}; print([m for m in {absent} if m in sys.modules])"
    assert started("-c", code).stdout.strip() == "[]"


def test_every_public_name_is_there():
    assert all(hasattr(normexp, name) for name in normexp.__all__)
    assert all(callable(getattr(normexp, name)) for name in ("train", "sweep", "verify", "report", "check"))
    assert callable(normexp.runs.load)
    assert callable(normexp.norms.swap)


def test_no_file_is_longer_than_four_hundred_lines():
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "scripts").rglob("*.py"), ROOT / "train.py"]
    assert not [path for path in files if len(path.read_text().splitlines()) > 400]
