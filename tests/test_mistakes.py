"""The commonest mistakes: one line with key, value and remedy, as an earlier version said it or better."""

import errno
import json
import re
from pathlib import Path

import pytest
from forked import forked, started

from normexp.config.errors import one_line
from normexp.runs.files import atomic_write

MISTAKES = json.loads((Path(__file__).parent / "frozen" / "mistakes.json").read_text())
NO_KEY = (
    "~norm", "~trainer", "~monitor", "norm=", "eps=nan", "monitor=[light,nope]", "nowhere", "norm=layernorm,nope",
)  # fmt: skip


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
        assert key_of(lines[0]).endswith(key_of(mistake["line"]))  # or with its group in front


SMALL = ["train", "model.width=4", "model.depth=1", "max_steps=2", "trainer=cpu", "monitor=none"]
SWEEP = ["train", "-m", *SMALL[1:]]
MINE = ["--config-dir", "c", "norm=mine"]
# words, files that are there -> how the line begins, and its remedy
AT_THE_DOOR = [
    ([*SMALL, "outputs="], {}, "outputs='': must be a name, not empty"),
    ([*SMALL, "name=''"], {}, "name='': must be a name, not empty"),
    ([*SMALL, *MINE], {"c/norm/mine.yaml": "a: [1"}, "c/norm/mine.yaml: cannot be read (.*); close brackets"),
    ([*SMALL, *MINE], {"c/norm/mine.yaml": "a: 1\na: 2"}, "c/norm/mine.yaml: line 2: a stands there twice; keep"),
    ([*SWEEP, "seed=0,1", "run_dir=x"], {}, "run_dir=x: is one folder for several runs; use outputs=FOLDER"),
    (["verify", "claim=S37", "evidence=nowhere"], {}, "evidence=nowhere: no such folder; name one with"),
    (["verify", "claim=S37", "out=f"], {"f": ""}, "f: File exists; a file is in the way; name another folder"),
    (["new", "norm", "my_norm"], {"configs": ""}, "configs/norm: Not a directory; a file is in the way; name"),
    (["compare", "r.csv"], {"r.csv": "arm|acc\na|1.5"}, "arm: no column is called arm or norm; write arm=NAME, one of"),
    (["compare", "r.csv", "value=acc", "margin=1"], {"r.csv": "arm;acc\na;1,5"}, r"acc=1,5 \(row 1\): is no number"),
    ([*SMALL, "norm=none", "norm=batchnorm"], {}, "norm=none norm=batchnorm: the key stands there twice; write"),
    ([*SWEEP, "norm=none,batchnorm", "+norm=none"], {}, r"norm=none,batchnorm \+norm=none: the key stands there"),
    ([*SWEEP, "--workers", "1", "--workers=2"], {}, "--workers --workers=2: the key stands there twice"),
    (["train", "~model.width", *SMALL[1:]], {}, "~model.width model.width=4: the key stands there twice"),
    (["advise", "model=cnn", "model=mlp"], {}, "model=cnn model=mlp: the key stands there twice"),
    (["compare", "model=cnn", "model=mlp"], {}, "model=cnn model=mlp: the key stands there twice"),
    (["compare", "f.py:f", "arms=a,b", "x=1", "x=2"], {"f.py": ""}, "x=1 x=2: the key stands there twice"),
    (["runs", "--csv"], {}, "--csv: no such option; --help explains"),
    (["train", "--cfg"], {}, "--cfg: a value is missing; write --cfg=job"),
    (["runs", "a", "b"], {}, "b: is a word too many; --help explains"),
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(("words", "files", "said"), AT_THE_DOOR, ids=lambda row: str(row)[:60])
def test_what_a_stranger_tries_is_one_line_and_leaves_nothing(words, files, said, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    done = forked(*words, script="normexp/__main__.py", folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(f"Error: {said}.*\n", done.stderr), done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_an_error_of_the_system_names_its_file_and_a_remedy(tmp_path):
    with pytest.raises(OSError, match="No space") as full, atomic_write(tmp_path / "a.json"):
        raise OSError(errno.ENOSPC, "No space left on device")  # which names no file
    remedy = "make room, or name another folder"
    assert one_line(full.value) == f"{tmp_path}/a.json: No space left on device; {remedy}"
    refused = PermissionError(errno.EACCES, "Permission denied", "x")
    assert one_line(refused) == "x: Permission denied; name another, or change who may use it"


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
        "from normexp.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = started("-c", code, *words, folder=tmp_path)
    assert done.returncode == 2
    nearest = "layernrom.*layernorm|dpeth.*depth|many.*whole number|mpl.*mlp"
    assert re.fullmatch(f"Error: .*({nearest}).*\n", done.stderr)
    assert list(tmp_path.iterdir()) == []
