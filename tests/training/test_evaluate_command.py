"""`normexp evaluate` repeats what a run recorded, and says in one line what it cannot evaluate."""

import re
import shutil
from pathlib import Path

import pytest

from normexp.cli import main
from normexp.config.run_spec import specs
from normexp.training.build import build
from normexp.training.train import launch

SMALL = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=16", "max_steps=2", "norm=batchnorm"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    overrides = [*SMALL, f"outputs={tmp_path_factory.mktemp('outputs')}"]
    parts = build(specs(overrides)[0])
    launch(parts)
    return parts.spec.folder


@pytest.fixture
def folder(trained, tmp_path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def evaluate(capsys):
    """(exit status, standard output, standard error) of the script."""

    def run(*arguments) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main.run("evaluate", [str(argument) for argument in arguments])
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    return run


def repeats(said: str) -> bool:
    """Whether all six metrics came again. Batches of another size are other sums: the last digit may differ."""
    rows = re.findall(r"(\w+/\w+)\W+([\d.]+)\W+([\d.]+)", said)
    return len(rows) == 6 and all(abs(float(now) - float(recorded)) < 2e-6 for _, now, recorded in rows)


@pytest.mark.parametrize("override", [None, "data.eval_batch_size=100"])
def test_the_recorded_metrics_come_again(evaluate, trained, override):
    status, said, wrong = evaluate(trained, *([override] if override else []))
    assert (status, wrong) == (0, "")
    assert repeats(said)
    assert "last.ckpt" not in said.partition("\n")[2]


def test_a_run_without_its_configuration_is_evaluated_by_its_summary(evaluate, folder):
    for name in ("config.yaml", "hydra.yaml", "overrides.yaml"):
        (folder / ".hydra" / name).unlink()
    status, said, _ = evaluate(folder)
    assert status == 0
    assert repeats(said)


def test_a_run_of_an_earlier_version_gets_the_default_of_a_key_that_it_lacks(evaluate, folder):
    saved = folder / ".hydra" / "config.yaml"
    older = re.sub(r"^compile: .*\n", "", saved.read_text(), flags=re.M)
    assert older != saved.read_text()
    saved.write_text(older)
    status, said, _ = evaluate(folder)
    assert status == 0
    assert repeats(said)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "model.width=64",
            r"last\.ckpt: does not fit the model \(size mismatch .*\); model\.width=64: changes",
        ),
        ("model.widht=64", "model.widht=64: no such key; write key=value"),
        ("bogus", "bogus: no such key; write key=value"),
        ("accuracies=[", r"accuracies=\[: is no value"),
        ("batch_size=many", "batch_size='many': must be"),
        ("data=mnist", "data=mnist: a run keeps its choices; write a key below one, such as data.root=DIR"),
    ],
)
def test_an_override_that_does_not_fit_is_one_line(evaluate, trained, override, message):
    status, said, wrong = evaluate(trained, override)
    assert (status, said) == (2, "")
    assert re.fullmatch(rf"Error: .*{message}.*\n", wrong)


@pytest.mark.parametrize("kept", [0, 3000, "text"])
def test_a_broken_checkpoint_is_one_line(evaluate, folder, kept):
    path = folder / "checkpoints" / "last.ckpt"
    path.write_bytes(b"hello\n" if kept == "text" else path.read_bytes()[:kept])
    status, said, wrong = evaluate(folder)
    assert (status, said) == (2, "")
    assert re.fullmatch(r"Error: .*last\.ckpt: damaged .*run it again\n", wrong)
