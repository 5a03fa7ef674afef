"""The program that trains the pilots of a population: it ends with a bank whose settings have lengths and rates."""

import subprocess
import sys

import pytest
import yaml
from committed import ROOT
from test_population import TINY

from normexp.claims.spec.bank import load_bank, pilots_file

NODE = TINY | {"settings": 1, "shared": ["recipe=plain", "trainer=cpu", "model.width=8"]}
NODE |= {"length": TINY["length"] | {"learned": 0.2, "seconds": 20}}


@pytest.mark.integration
def test_pilots_of_a_tiny_population_are_written_once(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(NODE))
    command = [sys.executable, "scripts/research/pilots.py", str(path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cell = next(iter(load_bank(path).cells.values()))
    assert cell.is_complete
    assert cell.updates >= 20
    assert set(cell.arm_rates) == {"none", "batchnorm"}
    written = pilots_file(path).read_text()
    assert (
        "1 settings have pilots" in subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    )
    assert pilots_file(path).read_text() == written
