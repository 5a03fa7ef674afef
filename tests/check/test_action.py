"""The GitHub action and the hook of pre-commit: their steps run here as bash and as a command line."""

import inspect
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from normexp.cli.check import check

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
NETWORK = """
import torch
from torch import nn
Net = lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))
"""


def step(tmp_path, **inputs):
    """The action's step, run with inputs as GitHub gives them. Returns the process."""
    (tmp_path / "own_action.py").write_text(NETWORK)
    (tmp_path / "bin").mkdir(exist_ok=True)
    if not (tmp_path / "bin" / "python").exists():
        (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (own,) = (part for part in ACTION["runs"]["steps"] if "check" in part["run"])
    values = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | inputs
    given = {key: values[word[3:-2].strip().removeprefix("inputs.")] for key, word in own["env"].items()}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = os.environ | given | {"PATH": path, "PYTHONPATH": str(ROOT)}
    bash = [shutil.which("bash") or "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", own["run"]]
    return subprocess.run(bash, cwd=tmp_path, env=env, capture_output=True, text=True)


@pytest.mark.integration
def test_action_annotates_fails_and_writes_a_file(tmp_path):
    failed = step(tmp_path, network="own_action:Net", data="4x6")
    assert failed.returncode == 1
    assert "::warning file=own_action.py,line=4," in failed.stdout
    options = "--ignore small_batch --strict"
    passed = step(
        tmp_path, network="own_action:Net", data="4x6", options=options, output="x.sarif", format="sarif"
    )
    assert (passed.returncode, passed.stdout) == (0, "")
    assert '"version": "2.1.0"' in (tmp_path / "x.sarif").read_text()


@pytest.mark.integration
def test_words_of_a_workflow_are_no_code(tmp_path):
    found = step(tmp_path, network="$(touch hacked)", options="; touch hacked `touch hacked`")
    assert found.returncode == 2
    assert not (tmp_path / "hacked").exists()


def test_hook_and_action_name_options_that_there_are():
    known = {f"--{name.replace('_', '-')}" for name in inspect.signature(check).parameters}
    words = shlex.split(HOOK["entry"])
    assert words[:2] == ["normexp", "check"]
    assert set(words[2:]) <= known
    assert not HOOK["pass_filenames"]
    run = " ".join(part["run"] for part in ACTION["runs"]["steps"])
    asked = {word.strip('"') for word in run.replace("(", " ").split() if word.strip('"').startswith("--")}
    assert asked <= known
    assert "${{" not in run
