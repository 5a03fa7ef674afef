"""`summary.json`: written last, whole or not at all."""

import json

import pytest
from fabricated import write_run
from refusals import refused

from normexp.runs import read_summary, write_summary


def test_summary_reads_back_and_leaves_no_other_file(tmp_path):
    whole = read_summary(write_run(tmp_path / "run", "none", 8, 0))
    (tmp_path / "new").mkdir()
    assert read_summary(tmp_path / "new") is None
    write_summary(tmp_path / "new", whole)
    assert read_summary(tmp_path / "new") == whole
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["summary.json"]


def test_values_that_are_not_finite_become_null_in_strict_json(tmp_path):
    write_summary(tmp_path, {"status": "diverged", "metrics": {"a": float("nan"), "b": [float("inf"), 1.0]}})
    text = (tmp_path / "summary.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["metrics"] == {"a": None, "b": [None, 1.0]}


@pytest.mark.parametrize("text", ["", '{"status": "comp', "[]", "{}", "\x00\x01", "[" * 10**6])
def test_damaged_summary_is_one_line_with_file_and_remedy(tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    with refused(r"damaged \(.+\); remove the folder") as caught:
        read_summary(tmp_path)
    assert str(tmp_path / "summary.json") in str(caught.value)
