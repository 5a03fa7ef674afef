"""The commonest mistakes: one line with key, value and remedy, as an earlier version said it or better."""

import json
from pathlib import Path

import pytest
from forked import forked

MISTAKES = json.loads((Path(__file__).parent / "frozen" / "mistakes.json").read_text())
NO_KEY = (
    "~norm",
    "~trainer",
    "~monitor",
    "norm=",
    "eps=nan",
    "monitor=[light,nope]",
    "nowhere",
    "norm=layernorm,nope",
)


def key_of(line: str) -> str:
    """`Error: lr='abc'` of `Error: lr='abc': must be a number`, without quotes."""
    return line.partition(": ")[2].partition(": ")[0].replace("'", "")


@pytest.mark.integration
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda row: " ".join(row["command"]))
def test_a_mistake_is_one_line_that_names_key_value_and_remedy(mistake, tmp_path):
    (tmp_path / "afile").write_text("x")
    done = forked(*mistake["command"], script="normexp/__main__.py", folder=tmp_path)
    lines = done.stderr.splitlines()
    assert done.returncode == 2, lines
    assert len(lines) == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"afile", "__pycache__"}
    if mistake["command"][-1] not in NO_KEY:  # these were said badly then
        assert key_of(lines[0]) == key_of(mistake["line"])
