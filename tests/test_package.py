"""What stands about the package in several files agrees."""

import importlib.util
import re
import tomllib
from pathlib import Path

import jinja2
import pytest
import yaml
from packaging.requirements import Requirement

from normexp import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
URLS = PROJECT["urls"]
RECIPE = ROOT / "docs" / "release" / "conda" / "meta.yaml"
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


def test_conda_recipe_asks_for_what_pyproject_asks():
    """Rendered as conda-build does, with its two functions; the packages of the index have the same names but torch."""

    def load_file_regex(name, pattern, from_recipe_dir):
        return re.search(pattern, (RECIPE.parent / name).read_text())

    def load_file_data(name, from_recipe_dir):
        return tomllib.loads((RECIPE.parent / name).read_text())

    page = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(RECIPE.read_text())
    recipe = yaml.safe_load(
        page.render(load_file_data=load_file_data, load_file_regex=load_file_regex, PYTHON="python")
    )
    assert recipe["package"] == {"name": PROJECT["name"], "version": __version__}
    python, *asked = map(Requirement, recipe["requirements"]["run"])
    assert (python.name, python.specifier) == (
        "python",
        Requirement(f"p{PROJECT['requires-python']}").specifier,
    )
    expected = {one.name: one.specifier for one in map(Requirement, PROJECT["dependencies"])}
    expected["pytorch"] = expected.pop("torch")
    assert {one.name: one.specifier for one in asked} == expected
    assert {Requirement(text).name for text in recipe["requirements"]["host"]} == {
        "python",
        "pip",
        "hatchling",
    }
    assert recipe["build"]["entry_points"] == [f"{name} = {to}" for name, to in PROJECT["scripts"].items()]
    assert (RECIPE.parent / recipe["source"]["path"]).resolve() == ROOT
    about = recipe["about"]
    assert (about["license"], about["summary"]) == (PROJECT["license"], PROJECT["description"])
    assert (about["home"], about["dev_url"]) == (URLS["Documentation"], URLS["Repository"])
    assert (ROOT / about["license_file"]).is_file()
