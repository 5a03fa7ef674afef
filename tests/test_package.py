"""What stands about the package in several files agrees."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from normexp import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
URLS = PROJECT["urls"]
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


def test_citation_and_the_badge_of_the_lesson_have_the_addresses_of_pyproject():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["url"] == URLS["Documentation"]
    assert citation["repository-code"] == URLS["Repository"]
    assert URLS["DOI"].endswith("/" + citation["doi"])
    cells = json.loads((ROOT / "docs" / "lesson.ipynb").read_text())["cells"]
    assert f"(images/open_notebook.svg)]({URLS['Lesson']})" in "".join(cells[0]["source"])


def test_readme_of_a_package_index_has_full_addresses():
    pytest.importorskip("hatchling")
    place = ROOT / "docs" / "release" / "metadata.py"
    spec = importlib.util.spec_from_file_location("metadata", place)
    spec.loader.exec_module(hook := importlib.util.module_from_spec(spec))
    text = hook.full_addresses(
        "![a](docs/a.png) [b](docs/b.md#c) [d](#e) [f](mailto:g)", "https://h.example", "1"
    )
    assert text == (
        "![a](https://h.example/raw/v1/docs/a.png) [b](https://h.example/blob/v1/docs/b.md#c) [d](#e) [f](mailto:g)"
    )
