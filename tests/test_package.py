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
