"""The generator of docs/norms.md, on fabricated results: what it counts, what it marks and what it measures itself."""

from xml.etree import ElementTree

import norm_table
from norms.layers import NAMES


def cases(*named):
    return [ElementTree.Element("testcase", classname=classname, name=name) for classname, name in named]


def test_a_test_counts_for_the_norm_among_its_parameters():
    tests = cases(
        ("tests.norms.test_against_torch", "test_values[none-dense]"),
        ("tests.norms.test_against_papers_in_eval", "test_buffers[rmsnorm-dense-native]"),
        ("tests.norms.test_derivatives", "test_gradcheck_in_training[rmsnorm-dense]"),
        ("tests.norms.test_derivatives", "test_something_else[rmsnorm-dense]"),
        ("tests.norms.test_against_papers", "test_detach[detach_none]"),
        ("tests.norms.test_against_papers", "test_skipped[rmsnorm]"),
    )
    ElementTree.SubElement(tests[-1], "skipped")
    properties = ElementTree.SubElement(tests[0], "properties")
    ElementTree.SubElement(properties, "property", name="norm", value="none")
    counts = norm_table.passed(tests)
    assert counts["none"] == {"torch": 1}
    assert counts["rmsnorm"] == {"paper": 1, "gradcheck": 1}


def test_speed_shows_the_limit_and_marks_what_is_above_it():
    def row(norm, ratio):
        sides = {"ours": {"ratio": ratio, "low": 0.9, "high": 1.2}}
        parts = {"both": sides, "forward": sides, "step": sides}
        return {"norm": norm, "shape": "dense", "device": "cpu", "compiled": False} | parts

    page = norm_table.speed([row("rmsnorm", 0.49), row("groupnorm", 0.7), row("scalenorm", 0.7)])
    assert "| `rmsnorm` | dense | 0.49 | **0.49** | 0.4 | 0.90 to 1.20 | – | 0.49 |" in page
    assert "| `groupnorm` | dense | 0.70 | 0.70 | 1.05 |" in page
    assert "| `scalenorm` | dense | 0.70 | 0.70 | – |" in page


def recorded(name, row, *, expected=True, on_images=False):
    """A test as junit has it that recorded a row of invariances."""
    (case,) = cases(("tests.norms.test_invariances", f"test_row[{name}]"))
    properties = ElementTree.SubElement(case, "properties")
    columns = {f"column {index}": answer for index, answer in enumerate(row.split())}
    for key, value in {"norm": name, "expected": expected, "on images": on_images, **columns}.items():
        ElementTree.SubElement(properties, "property", name=key, value=str(value))
    return case


def test_rows_of_invariances_are_those_that_the_tests_recorded(capsys):
    tests = [
        *cases(("tests.norms.test_against_torch", "t[none-dense]")),
        recorded("layernorm", "y n"),
        recorded("instancenorm", "n y", on_images=True),
    ]
    page = norm_table.invariances(tests, ["instancenorm", "layernorm"])
    assert "| name | column 0 | column 1 |\n" in page
    assert "| `instancenorm` | n | y |\n| `layernorm` | y | n |\n" in page
    assert "\n`instancenorm`: on images, where W" in page
    assert capsys.readouterr().out == ""


def test_a_norm_without_an_expected_row_is_named(capsys):
    page = norm_table.invariances([recorded("mine", "y n", expected=False)], ["mine"])
    assert "| `mine` measured | y | n |" in page
    assert capsys.readouterr().out.startswith("mine: not in TABLE")


def test_the_page_has_every_norm_in_every_table(tmp_path, monkeypatch):
    monkeypatch.setattr(norm_table, "PAGE", tmp_path / "norms.md")
    tests = [
        *cases(("tests.norms.test_against_torch", "t[none-dense]")),
        *(recorded(n, "y n") for n in NAMES),
    ]
    monkeypatch.setattr(norm_table, "run_tests", lambda: tests)
    monkeypatch.setattr("sys.argv", ["norm_table.py"])
    norm_table.main()
    page = (tmp_path / "norms.md").read_text()
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    assert list(sections) == ["Members", "Checks", "Invariances of norm(W x)", "Speed"]
    for title in ("Members", "Checks", "Invariances of norm(W x)"):
        assert all(f"\n| `{name}`" in sections[title] for name in NAMES), title
    assert "| `none` | 1 | – |" in sections["Checks"]
