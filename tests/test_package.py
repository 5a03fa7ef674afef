"""What stands about the package in several files agrees."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from normexp import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = {
    (pin := Requirement(line)).name: pin
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
}


@pytest.mark.parametrize("text", PROJECT["dependencies"])
def test_constraints_pin_each_dependency_within_what_is_allowed(text):
    asked = Requirement(text)
    (pin,) = PINNED[asked.name].specifier
    assert pin.operator == "=="
    assert asked.specifier.contains(pin.version)


def test_citation_names_this_version_and_license():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])
    assert re.search(r"Apache License\s+Version 2.0", (ROOT / "LICENSE").read_text())


def test_workflow_tests_the_oldest_and_the_newest_torch_and_python():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert "://" not in text
    assert "index" not in text
    matrix = yaml.safe_load(text)["jobs"]["fast"]["strategy"]["matrix"]
    allowed = Requirement(f"python{PROJECT['requires-python']}").specifier
    versions = [f"3.{minor}" for minor in range(20) if allowed.contains(f"3.{minor}")]
    assert matrix["python"] == [versions[0], versions[-1]]
    least = {
        name: spec
        for name in ("torch", "torchvision")
        for spec in PROJECT["dependencies"]
        if re.match(rf"{name}>=", spec)
    }
    oldest = " ".join(spec.replace(">=", "==") + ".*" for spec in least.values())
    assert matrix["torch"] == [oldest, "torch torchvision"]
