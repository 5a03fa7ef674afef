"""Write the tables of docs/norms.md: every norm, its checks and its invariances. `python scripts/norm_table.py`

It runs the tests of the norms, slow ones too, and reads what they passed and recorded."""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from doc_tables import DOCS, ROOT, filled, table
from omegaconf import OmegaConf

PAGE = DOCS / "norms.md"
# column -> part of the names of its test files or functions
CHECKS = {
    "torch": "test_against_torch",
    "paper": "test_against_papers",
    "contract": "test_norm_contract",
    "gradcheck": "gradcheck",
    "2nd derivative": "second_derivatives",
    "forward mode": "forward_mode",
    "vmap": "replicas_under_vmap",
    "compiled": "test_compile",
}
Cases = list[ElementTree.Element]


def run_tests() -> Cases:
    """junit's test cases of all tests of the norms."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "tests/norms", "-m", "", f"--junitxml={report}"]
        subprocess.run(command, cwd=ROOT, check=True)
        return list(ElementTree.parse(report).iter("testcase"))


def members() -> str:
    """The file of each norm, its class and its first comment."""
    rows = []
    for path in sorted((ROOT / "configs" / "norm").glob("*.yaml")):
        target = OmegaConf.load(path)["_target_"].rpartition(".")[2]
        rows.append([f"`{path.stem}`", f"`{target}`", path.read_text().splitlines()[0].removeprefix("# ")])
    return table(["name", "class", "what"], rows)


def checks(cases: Cases, names: Iterable[str]) -> str:
    """The checks that a norm passes. A test belongs to a norm if the norm's name is among its parameters."""
    passed = defaultdict(set)
    for case in cases:
        function, _, arguments = case.get("name").partition("[")
        if case.find("skipped") is None:
            found = {
                check for check, part in CHECKS.items() if part in case.get("classname") or part in function
            }
            for argument in arguments.rstrip("]").split("-"):
                passed[argument] |= found
    rows = [[f"`{name}`", *("yes" if check in passed[name] else None for check in CHECKS)] for name in names]
    return table(["name", *CHECKS], rows)


def invariances(cases: Cases, names: Iterable[str]) -> str:
    """The row of each norm that tests/norms/test_invariances.py recorded; marked if the test expects nothing of it."""
    found = {}
    for case in cases:
        row = {p.get("name"): p.get("value") for p in case.iterfind("properties/property")}
        if "norm" in row:
            found[row.pop("norm")] = row
    rows = []
    for name in names:
        row = found[name]
        notes = [" (measured)"] * (row.pop("expected") != "True") + [" (images)"] * (
            row.pop("on images") == "True"
        )
        rows.append([f"`{name}`{''.join(notes)}", *row.values()])
    return table(["name", *row], rows)


def main() -> None:
    """Run the tests and fill the page."""
    cases = run_tests()
    names = [path.stem for path in sorted((ROOT / "configs" / "norm").glob("*.yaml"))]
    parts = {"members": members(), "checks": checks(cases, names), "invariances": invariances(cases, names)}
    PAGE.write_text(filled(PAGE.read_text(), parts))


if __name__ == "__main__":
    main()
