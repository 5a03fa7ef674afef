"""The commonest mistakes: one line with key, value and remedy, as an earlier version said it or better."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked import forked

ROOT = Path(__file__).parents[1]
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


@pytest.mark.parametrize(
    "words",
    [["train", "norm=layernrom"], ["train", "model.dpeth=3"], ["train", "batch_size=many"],
     ["train", "-m", "norm=none,layernrom"], ["train", "-m", "norm=none,layernorm", "model.dpeth=3"],
     ["train", "-m", "seed=0,many"], ["compare", "norms=none,layernrom"], ["compare", "model=mpl"]],
    ids=" ".join,
)  # fmt: skip
def test_a_typo_is_answered_without_the_imports_that_take_seconds(words, tmp_path):
    code = (
        "import sys; sys.modules.update(torch=None, pandas=None, scipy=None, pytorch_lightning=None)\n"
        "from normexp.cli.main import main; sys.exit(main())"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert re.fullmatch(
        "Error: .*(layernrom.*layernorm|dpeth.*depth|many.*whole number|mpl.*mlp).*\n", done.stderr
    )
    assert list(tmp_path.iterdir()) == []
