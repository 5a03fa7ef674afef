"""What stands about the package in several files agrees."""

import importlib.util
import itertools
import re
import sys
import tomllib
from pathlib import Path

import jinja2
import pytest
import release
import yaml
from packaging.requirements import Requirement
from test_imports import imported

from normexp import __version__
from normexp.format import INSTALL, installs

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
URLS = PROJECT["urls"]
RECIPE = ROOT / "docs" / "release" / "conda" / "meta.yaml"
PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
PINNED = {pin.name: pin for pin in map(Requirement, PINS)}


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
    text = hook.full_addresses("![a](docs/a.png) [b](docs/b.md#c) [d](#e) [f](mailto:g)", "https://h", "1")
    assert (
        text == "![a](https://h/raw/v1/docs/a.png) [b](https://h/blob/v1/docs/b.md#c) [d](#e) [f](mailto:g)"
    )


def test_conda_recipe_asks_for_what_pyproject_asks():
    """Rendered as conda-build does, with its two functions; the packages of the index have the same names but torch."""

    def load_file_regex(name, pattern, from_recipe_dir):
        return re.search(pattern, (RECIPE.parent / name).read_text())

    def load_file_data(name, from_recipe_dir):
        return tomllib.loads((RECIPE.parent / name).read_text())

    page = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(RECIPE.read_text())
    functions = {"load_file_data": load_file_data, "load_file_regex": load_file_regex}
    recipe = yaml.safe_load(page.render(PYTHON="python", **functions))
    assert recipe["package"] == {"name": PROJECT["name"], "version": __version__}
    python, *asked = map(Requirement, recipe["requirements"]["run"])
    versions = Requirement(f"p{PROJECT['requires-python']}").specifier
    assert (python.name, python.specifier) == ("python", versions)
    expected = {one.name: one.specifier for one in map(Requirement, PROJECT["dependencies"])}
    expected["pytorch"] = expected.pop("torch")
    assert {one.name: one.specifier for one in asked} == expected
    host = {Requirement(text).name for text in recipe["requirements"]["host"]}
    assert host == {"python", "pip", "hatchling"}
    assert recipe["build"]["entry_points"] == [f"{name} = {to}" for name, to in PROJECT["scripts"].items()]
    assert (RECIPE.parent / recipe["source"]["path"]).resolve() == ROOT
    about = recipe["about"]
    assert (about["license"], about["summary"]) == (PROJECT["license"], PROJECT["description"])
    assert (about["home"], about["dev_url"]) == (URLS["Documentation"], URLS["Repository"])
    assert (ROOT / about["license_file"]).is_file()


def test_pages_say_how_to_install_as_the_code_does():
    """Before a release no line installs what a stranger may have put under the name."""
    readme, pages = (ROOT / "README.md").read_text(), [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    pages += [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".txt", ".ipynb")]
    commands = re.findall(r"^```bash\n(.*?)\n```", readme, re.M | re.S)
    assert commands[0] == f"{installs()} && python train.py norm=layernorm"
    assert commands[-1] == f"{installs('dev')} && pytest"
    assert f"`{installs()}`" in (ROOT / "docs" / "llms.txt").read_text()
    if INSTALL == ("pip install -e", "."):
        assert not [path for path in pages if re.search(r"pip install (-q )?\"?normexp", path.read_text())]
        assert "not yet on the package index" in readme
    assert set(re.findall(r"`?pip install -e \"\.\[([\w,]+)\]", "".join(p.read_text() for p in pages))) <= {
        *PROJECT["optional-dependencies"], "wandb,mlflow",
    }  # fmt: skip


def test_what_is_imported_is_declared():
    """Every package that a file of the project imports is a dependency, an extra, or imported under `try`."""
    names = {"pyyaml": "yaml", "pytorch-lightning": "pytorch_lightning", "hydra-core": "hydra"}
    names["pillow"] = "PIL"
    names |= {"lightning-utilities": "lightning_utilities"}
    asked = [*PROJECT["dependencies"], *itertools.chain(*PROJECT["optional-dependencies"].values())]
    declared = {names.get(name := Requirement(text).name.lower(), name) for text in asked}
    vendored = {"lightning_fabric"}  # in pytorch-lightning's wheel
    hubs = {"timm", "transformers"}  # imported by name if a user names one of their networks
    used = {name.split(".")[0] for path in (ROOT / "normexp").rglob("*.py") for name in imported(path)}
    third = used - set(sys.stdlib_module_names) - {"normexp"}
    assert third <= declared | vendored | hubs
    assert {name for name in (Requirement(text).name for text in PROJECT["dependencies"])} <= {
        {v: k for k, v in names.items()}.get(name, name) for name in third
    }


def test_release_stops_at_placeholders_and_not_without_them(tmp_path):
    here = " ".join(release.mistakes(f"v{__version__}"))
    assert "pyproject.toml" in here
    assert "CHANGELOG.md" in here
    for name in ("normexp/__init__.py", "CHANGELOG.md", "README.md", *release.CHECKED):
        text = (ROOT / name).read_text()
        text = re.sub(release.PLACEHOLDER, "real.org/", text).replace("not yet on the package index", "")
        text = text.replace(f"## {__version__} (unreleased)", f"## {__version__} (2026-12-01)")
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    assert release.mistakes(f"v{__version__}", tmp_path) == []
    (wrong,) = release.mistakes("v9.9.9", tmp_path)
    assert wrong == f"tag v9.9.9: normexp/__init__.py says {__version__}; tag v{__version__}"


def test_forms_and_workflows_are_whole():
    folder = ROOT / ".github"
    forms = {
        form.stem: yaml.safe_load(form.read_text()) for form in (folder / "ISSUE_TEMPLATE").glob("*.yml")
    }
    assert {"wrong_verdict", "false_finding", "claim_wanted", "bug", "config"} == set(forms)
    for name, form in forms.items():
        if name == "config":
            continue
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert len({field["id"] for field in fields}) == len(fields)
        assert all(field["attributes"]["label"] for field in fields)
        assert any(field.get("validations", {}).get("required") for field in fields)
    for path in (folder / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                script = step.get("run", "").split()
                files = [word for word in script if word.startswith((".ci/", "scripts/"))]
                assert all((ROOT / word).is_file() for word in files), path
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert {hook["id"] for repo in hooks for hook in repo["hooks"]} >= {"ruff", "format"}
    dependabot = yaml.safe_load((folder / "dependabot.yml").read_text())
    assert dependabot["version"] == 2
