"""Kept evidence is judged by a way that trains nothing and loads nothing that could."""

import subprocess
import sys

import pytest
from committed import ROOT

CODE = """
import sys

HEAVY = ("torch", "torchvision", "pytorch_lightning", "lightning_fabric", "tensorboard")


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise ImportError(f"{name} is blocked")


sys.meta_path.insert(0, Blocked())
from normexp.cli.main import run

status = run("verify", ["claim=P10a", f"out={sys.argv[1]}"])
trains = ("claims.train", "evidence.disk", "evidence.initial", "sweeps.run", "training", "config.run_spec")
print(status, [name for name in sys.modules if name.removeprefix("normexp.").startswith(trains)])
"""


@pytest.mark.integration
def test_a_kept_verdict_needs_neither_torch_nor_what_trains(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []", done.stdout
    assert {path.name for path in (tmp_path / "P10a").iterdir()} == {
        "verdict.json", "evidence.csv", "settings.csv", "figure.png",
    }  # fmt: skip
