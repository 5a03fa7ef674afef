"""The generator of docs/norms.md, on fabricated results of tests."""

from xml.etree import ElementTree

import norm_table
from norms.layers import NAMES


def case(classname, name, **recorded):
    found = ElementTree.Element("testcase", classname=classname, name=name)
    properties = ElementTree.SubElement(found, "properties")
    for key, value in recorded.items():
        ElementTree.SubElement(properties, "property", name=key.replace("_", " "), value=str(value))
    return found


def test_a_test_counts_for_the_norm_among_its_parameters():
    tests = [
        case("tests.norms.test_against_torch", "test_values[none-dense]"),
        case("tests.norms.test_derivatives", "test_gradcheck_in_training[rmsnorm-dense]"),
        case("tests.norms.test_derivatives", "test_something_else[rmsnorm-dense]"),
        case("tests.norms.test_against_papers", "test_skipped[rmsnorm]"),
    ]
    ElementTree.SubElement(tests[-1], "skipped")
    lines = norm_table.checks(tests, ["none", "rmsnorm"]).splitlines()
    assert lines[2] == "| `none` | yes" + " | –" * 7 + " |"
    assert lines[3] == "| `rmsnorm`" + " | –" * 3 + " | yes" + " | –" * 4 + " |"


def test_rows_of_invariances_are_those_that_the_tests_recorded():
    tests = [
        case("tests.norms.test_against_torch", "t[none-dense]"),
        case("t", "r[mine]", norm="mine", expected=False, on_images=False, first="y", second="n"),
        case(
            "t", "r[instancenorm]", norm="instancenorm", expected=True, on_images=True, first="n", second="y"
        ),
    ]
    lines = norm_table.invariances(tests, ["instancenorm", "mine"]).splitlines()
    assert lines[0] == "| name | first | second |"
    assert lines[2:] == ["| `instancenorm` (images) | n | y |", "| `mine` (measured) | y | n |"]


def test_the_page_names_every_norm_with_its_comment():
    assert norm_table.members() in norm_table.PAGE.read_text(), "run python scripts/norm_table.py"
    assert all(f"\n| `{name}`" in norm_table.members() for name in NAMES)
