"""The wheel: what it carries, and its command in a folder far from the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from normexp import __version__
from normexp.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
SMALL = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=16", "max_steps=2"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*build, "--wheel-dir", str(folder)], cwd=ROOT, check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def normexp(wheel, tmp_path_factory):
    """The command of the wheel, in a folder of its own; returns what it printed."""
    place, here = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("here")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(place)]
    subprocess.run([*install, str(wheel)], check=True)
    (command,) = (place / "bin").glob("normexp*")

    def run(*arguments: str, status: int = 0) -> str:
        settings = {"cwd": here, "env": os.environ | {"PYTHONPATH": str(place)}}
        found = subprocess.run([command, *arguments], capture_output=True, text=True, **settings)
        assert found.returncode == status, found.stderr
        return found.stdout + found.stderr

    run.here, run.place = here, place
    return run


@pytest.mark.slow
def test_wheel_carries_the_package_its_configurations_and_the_plugins_alone(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for source, target in (("configs", "normexp/configs"), ("normexp", "normexp"), ("hydra_plugins",) * 2):
        files = (path for path in (ROOT / source).rglob("*") if path.is_file() and path.suffix != ".pyc")
        assert {f"{target}/{path.relative_to(ROOT / source).as_posix()}" for path in files} <= names
    tops = {name.split("/")[0] for name in names}
    about = f"normexp-{__version__}.dist-info"
    assert tops == {"normexp", "hydra_plugins", about}
    assert f"{about}/licenses/LICENSE" in names
    metadata = zipfile.ZipFile(wheel).read(f"{about}/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata


@pytest.mark.slow
def test_every_command_works_from_any_folder(normexp):
    assert all(f"normexp {name}" in normexp("--help") for name in COMMANDS)
    assert "normexp train norm=layernorm" in normexp("train", "--help")
    assert "  S36 " in normexp("verify", "--help")

    said = normexp("train", *SMALL, "norm=layernorm")
    assert "folder: outputs/runs/mlp/layernorm-" in said
    (path,) = (normexp.here / "outputs" / "runs").rglob("summary.json")
    assert json.loads(path.read_text())["versions"]["normexp"] == __version__

    said = normexp("train", "-m", *SMALL, "norm=none,layernorm", "name=sweep", "hydra.launcher.workers=2")
    assert "\n2 completed in" in said
    assert "report: normexp report outputs/sweep" in said
    written = [path.read_text() for path in (normexp.here / "outputs" / "sweep").rglob("summary.json")]
    found = {json.loads(text)["command"] for text in written}
    typed = [[*SMALL, f"norm={norm}", "name=sweep"] for norm in ("none", "layernorm")]
    assert found == {"normexp train " + " ".join(words) for words in typed}
    assert "report: outputs/sweep/report/index.html" in normexp("report", "outputs/sweep")

    assert "SUPPORTED" in normexp("verify", "claim=S36")
    assert "registry.jsonl: no row yet" in normexp("register")


@pytest.mark.slow
def test_two_processes_start_again_by_the_command(normexp):
    """Lightning repeats the command line for each device, the word `train` included."""
    said = normexp("train", *SMALL, "trainer=ddp", "trainer.accelerator=cpu", "name=two")
    assert "completed · 2 steps" in said
