"""What a message or a page tells one to type can be typed."""

import json
import re
import shlex
from pathlib import Path

import pytest
from fabricated import edit_summary, write_run, write_study
from forked import forked

from normexp import __version__
from normexp.cli.main import COMMANDS
from normexp.cli.report import runs
from normexp.config.compose import study_of

ROOT = Path(__file__).parents[1]
SMALL = ["model.depth=1", "model.width=8", "max_steps=4", "monitor=none", "data.train_size=80"]
TYPED = re.compile(r"^(?:report|look): +(.+)$", re.M)
TEXTS = [
    *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "normexp").rglob("*.py"),
    *(ROOT / "normexp").rglob("*.j2"), *(ROOT / "scripts").glob("*.py"),
]  # fmt: skip


def follow(line: str) -> None:
    """Do what a printed line says."""
    words = shlex.split(line)
    if words[0] == "tensorboard":
        assert list(Path(words[2]).rglob("events.out.tfevents*"))
        return
    assert words[0] == "python", line
    done = forked(*words[2:], script=words[1], COLUMNS="160")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_lines_at_the_end_of_a_sweep_and_of_a_run_work_without_a_name(tmp_path):
    """A run of other data lies beside them, as after the first commands of the README."""
    given = [*SMALL, f"outputs={tmp_path}"]
    words = ["model=gpt", "model.width=16", "model.heads=2", "data=python_docs", "batch_size=2"]
    alone = forked(*words, "monitor=none", "max_steps=2", given[-1], COLUMNS="160")
    assert alone.returncode == 0, alone.stderr
    swept = forked("-m", "norm=none,rmsnorm", "seed=0,1", *given, COLUMNS="160")
    assert swept.returncode == 0, swept.stderr
    found = TYPED.findall(alone.stdout) + TYPED.findall(swept.stdout)
    assert [line.split()[1] for line in found] == ["--logdir", "scripts/report.py", "--logdir"]
    assert "runColorGroup=regex:(rmsnorm|none)" in swept.stdout
    for line in found:
        follow(line)
    page = next(tmp_path.rglob("report/index.html")).read_text()
    made_by = re.search(r"Page made by <code>(.*?)</code>", page)[1]
    follow(made_by)


def test_every_command_that_is_named_exists():
    text = "\n".join(path.read_text() for path in TEXTS)
    for name in re.findall(r"""command\(["'](\w+)["']\)|`normexp (\w+)""", text):
        assert "".join(name) in COMMANDS, name
    for name in re.findall(r"python (scripts/[\w/]+\.py)", text):
        assert (ROOT / name).is_file(), name


def test_a_sweep_has_a_study_of_its_own_which_more_seeds_share():
    words = ["norm=none,rmsnorm", "batch_size=2,8"]
    study = study_of([*words, "seed=0,1"])
    assert study == study_of([*words, "seed=range(5)", "outputs=x"]) == "norm_batch_size"
    fixed = study_of([*words, "model=cnn", "max_epochs=3"])
    assert fixed.startswith("cnn_norm_batch_size-")
    assert fixed == study_of(["max_epochs=3", *words, "model=cnn"]) != study_of([*words, "model=cnn"])
    assert study_of(["seed=0,1"]) == "seed"
    for words in (
        ["norm=none"],
        ["norm=none,rmsnorm", "name=mine"],
        ["experiment=depth"],
        ["a=["],
    ):
        assert study_of(words) is None, words


@pytest.mark.integration
def test_the_refusal_of_several_data_sets_names_the_filter_that_helps(tmp_path):
    root = write_study(tmp_path / "s", ("none", "rmsnorm"), (8,), seeds=2)
    other = write_run(root, "none", 8, 7)
    choices = json.loads((other / "summary.json").read_text())["choices"]
    edit_summary(other, choices=choices | {"data": "mnist"})
    refused = forked(str(root), script="scripts/report.py")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    (word,) = re.findall(r"choose one, (\S+)", refused.stderr)
    assert word == "data=digits"  # tests/report filter by it
    for mistake in ("dat=digits", "data=x", "digits"):
        refused = forked(str(root), mistake, script="scripts/report.py")
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr


def test_studies_and_runs_are_listed(tmp_path):
    write_study(tmp_path / "o" / "first", ("none", "rmsnorm"), (8,), seeds=2, name="first")
    write_study(tmp_path / "o" / "second", ("none",), (2, 8), seeds=1, name="second")

    def lines(*words: str) -> list[str]:
        done = forked("runs", *words, script="normexp/__main__.py", COLUMNS="200")
        assert done.returncode == 0, done.stderr
        return [line for line in done.stdout.splitlines() if re.match(r"\S+/\S+ +│", line)]

    assert {line.split("/")[0] for line in lines(str(tmp_path / "o"))} == {"first", "second"}
    assert len(lines(str(tmp_path / "o" / "first"))) == 4
    refused = forked("runs", str(tmp_path / "absent"), script="normexp/__main__.py")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_a_run_that_failed_is_listed_as_one(tmp_path, capsys):
    for seed, metrics in enumerate(({"train/loss": 2e8}, {"test/accuracy": None}, {})):
        folder = write_run(tmp_path, "none", 8, seed, lr=1e6)
        known = json.loads((folder / "summary.json").read_text())["metrics"]
        edit_summary(folder, metrics=known | metrics, chance_loss=2.3)
    runs(tmp_path)
    rows = {line.split("-s")[1][0]: line for line in capsys.readouterr().out.splitlines() if "-s" in line}
    assert re.search(r"│ failed +│", rows["0"])
    assert re.search(r"│ not finite +│", rows["1"])
    assert re.search(r"│ 1e\+06 +│ \d\d\.\d\d% +│", rows["2"])


@pytest.mark.parametrize("words", [["--version"], ["train", "--version"]], ids=" ".join)
def test_the_version_is_ours(words):
    script = "normexp/__main__.py" if words[0] == "train" else "train.py"
    assert forked(*words, script=script).stdout == f"normexp {__version__}\n"
