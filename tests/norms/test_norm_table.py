"""The generator of docs/norms.md, on fabricated results: what it counts, what it marks and what it measures itself."""

import sys
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

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


def test_a_norm_without_a_row_of_invariances_is_measured_and_named(monkeypatch, capsys):
    known = norm_table.invariances(["layernorm", "instancenorm"])
    assert "| `layernorm` | y | y | n | y | n | y |" in known
    assert "`instancenorm` on images, where W" in known
    assert capsys.readouterr().out == ""
    from norms.test_invariances import TABLE

    monkeypatch.delitem(TABLE, "layernorm")
    assert "| `layernorm` measured | y | y | n | y | n | y |" in norm_table.invariances(["layernorm"])
    assert capsys.readouterr().out.startswith("layernorm: not in TABLE")


def test_the_page_has_every_norm_in_every_table(tmp_path, monkeypatch):
    monkeypatch.setattr(norm_table, "PAGE", tmp_path / "norms.md")
    monkeypatch.setattr(
        norm_table, "run_tests", lambda: cases(("tests.norms.test_against_torch", "t[none-dense]"))
    )
    norm_table.main()
    page = (tmp_path / "norms.md").read_text()
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    assert list(sections) == ["Members", "Checks", "Invariances of norm(W x)", "Speed"]
    for title in ("Members", "Checks", "Invariances of norm(W x)"):
        assert all(f"\n| `{name}`" in sections[title] for name in NAMES), title
    assert "| `none` | 1 | – |" in sections["Checks"]
