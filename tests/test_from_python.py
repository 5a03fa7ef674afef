"""normexp from Python: what a call gives, and that it leaves nothing behind."""

import gc
import io
import json
import logging
import os
import random
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from forked import forked
from pytorch_lightning import LightningDataModule
from refusals import refused

import normexp
from normexp import api as from_python
from normexp.cli import train as cli_train
from normexp.config.compose import study_of
from normexp.config.folder import use_folder
from normexp.config.options import last_of_each
from normexp.report.figures import FIGURES

ROOT = Path(__file__).parents[1]
SMALL = ("model.depth=1", "model.width=8", "max_epochs=1", "data.train_size=128", "trainer=cpu", "threads=1")


def state():
    return {
        "environment": dict(os.environ),
        "filters": list(warnings.filters),
        "format": warnings.formatwarning,
        "level": logging.getLogger("pytorch_lightning").level,
        "random": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),
        "torch": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
    }


@pytest.mark.integration
def test_two_runs_in_one_process_are_those_of_the_command_and_leave_nothing_behind(tmp_path):
    torch.manual_seed(5)
    before = state()
    words = {"seed": 1, "outputs": tmp_path / "here", "trainer": "float64"}
    runs = [normexp.train(*SMALL, norm=norm, **words) for norm in ("layernorm", "batchnorm")]
    assert state() == before
    assert not any(issubclass(type(kept), LightningDataModule) for kept in gc.get_objects())
    words = [
        "norm=batchnorm",
        "seed=1",
        *last_of_each([*SMALL, "trainer=float64"]),
        f"outputs={tmp_path / 'there'}",
    ]
    assert forked("train", *words, script="normexp/__main__.py").returncode == 0
    (there,) = (tmp_path / "there").rglob("summary.json")
    again = json.loads(there.read_text())
    assert runs[1].summary["metrics"] == again["metrics"]
    assert runs[1].summary["hash"] == again["hash"]
    assert again["command"].startswith("normexp train norm=batchnorm")
    assert runs[1].folder.name == there.parent.name


@pytest.mark.integration
def test_a_run_has_its_table_its_figures_and_its_folder(tmp_path, monkeypatch):
    run = normexp.train("norm=rmsnorm", *SMALL, f"outputs={tmp_path}")
    last = run.metrics.query("metric == 'val/accuracy'").iloc[-1]
    assert last["value"] == pytest.approx(run.summary["metrics"]["val/accuracy"])
    assert "learning_step" in run.figures
    assert (run.folder / "summary.json").exists()
    assert "mlp rmsnorm digits, completed, test accuracy" in repr(run)
    monkeypatch.setattr("normexp.report.page.FIGURES", dict(list(FIGURES.items())[:1]))
    page = normexp.report(tmp_path / "runs")  # the package of that name was imported meanwhile
    assert page.read_text().startswith("<!")
    assert normexp.train("norm=rmsnorm", *SMALL, f"outputs={tmp_path}").summary == run.summary


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("norm=foo",), "norm=foo: no such choice"),
        (({"norm": ["none", "batchnorm"]},), r"norm=\[none,batchnorm\]: a run has one norm"),
        ((3,), '3: write "key=value", a dictionary'),
        (("model=module", "model.path=os.path.join"), r"add allow_targets=\[os\]"),
        (("model=module", "model.path=torchvision.models.SqueezeNet", "allow_targets=[torchvision]", "norm=none"),
         r"model: SqueezeNet fails on a batch of \(64, 1, 8, 8\): RuntimeError: Invalid channel"),
    ],
)  # fmt: skip
def test_mistakes_are_value_errors_of_one_line_and_change_nothing(overrides, message, tmp_path):
    before = state()
    with refused(message):
        normexp.train(*overrides, f"outputs={tmp_path}")
    assert state() == before
    assert not list(tmp_path.iterdir())


def test_words_keywords_and_dictionaries_say_the_same():
    words = ["norm=layernorm", "model.width=64", "early_stopping=null", "accuracies=[0.5,0.9]"]
    asked = {"norm": "layernorm", "model.width": 64, "early_stopping": None, "accuracies": [0.5, 0.9]}
    keywords = {key.replace(".", "__"): value for key, value in asked.items()}
    assert from_python.words_of([asked], {}) == from_python.words_of([], keywords) == words
    assert from_python.words_of(["norm=layernorm", {"compile": True}], {"outputs": "a b"}) == [
        "norm=layernorm", "compile=true", "outputs='a b'",
    ]  # fmt: skip
    assert from_python.words_of([], {"seed": np.arange(2), "lr": np.float32(0.5)}) == ["seed=[0,1]", "lr=0.5"]
    assert from_python.words_of([], {"seed": np.arange(2)}, many=True) == ["seed=0,1"]
    axes = from_python.words_of([], {"norm": ["none", "layernorm"], "seed": range(2)}, many=True)
    assert axes == ["norm=none,layernorm", "seed=0,1"]
    assert from_python.words_of([], {"accuracies": [[0.5, 0.9]]}, many=True) == ["accuracies=[0.5,0.9]"]


class Forked:
    """What `subprocess.Popen` gives for `python -m normexp WORDS`, from the server that has made the imports."""

    def __init__(self, command, *, env, **streams):
        assert command[:3] == [sys.executable, "-m", "normexp"]
        done = forked(*command[3:], script="normexp/__main__.py", folder=Path.cwd(), **env)
        self.stdout, self.returncode = io.StringIO(done.stdout + done.stderr), done.returncode

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


@pytest.mark.integration
def test_commands_run_in_new_processes_of_this_python(monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with refused(r"^claim=S999: no such claim"):
        normexp.verify("S999")
    assert capsys.readouterr().out.startswith("Error: claim=S999")
    with refused(r"^claim=None: name an id"):
        normexp.verify(None)
    from_python._command("train", "--help")
    assert "norm=layernorm" in capsys.readouterr().out


@pytest.mark.integration
def test_a_sweep_and_a_verdict(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(from_python, "subprocess", SimpleNamespace(Popen=Forked, PIPE=None, STDOUT=None))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a notebook does
    study = normexp.sweep("norm=none,layernorm", *SMALL, "name=two", "hydra.launcher.workers=0")
    screen = capsys.readouterr().out
    assert screen.count("  completed ") == 2
    assert "\x1b" not in screen
    assert len(study.summaries) == 2
    shown = study._repr_markdown_()
    assert "layernorm" in shown
    assert "No difference between arms can be given" in shown
    assert set(study.summaries["norm"]) == {"none", "layernorm"}
    monkeypatch.setattr("normexp.report.page.FIGURES", dict(list(FIGURES.items())[:1]))
    assert study.report().exists()
    verdict = normexp.verify("S36", out=str(tmp_path / "claims"))["S36"]
    assert verdict == json.loads((tmp_path / "claims" / "S36" / "verdict.json").read_text())
    assert verdict["verdict"]
    assert "S36" in capsys.readouterr().out
    again = normexp.verify("S08", out=str(tmp_path / "claims"), small=None)
    assert [*again] == ["S08"]  # not S36, which was judged a moment ago


@pytest.mark.parametrize(
    "words",
    [
        ["experiment=mine", "norm=none,layernorm"],
        ["model=timm:test_vit", "norm=original,layernorm", "seed=0,1"],
    ],
)
def test_a_sweep_gives_the_folder_in_which_the_command_trains(words, monkeypatch, tmp_path):
    """Of a preset of one's own, and of a network that a hub names."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nname: of_mine\n")
    monkeypatch.setattr(from_python, "_command", lambda *_: None)
    seen: list[list[str]] = []
    monkeypatch.setattr("normexp.cli.train.sweep", lambda overrides, _: seen.append(overrides))
    cli_train.train(["-m", "--config-dir", str(tmp_path), *words])
    name = study_of(seen[0]) or "of_mine"
    use_folder(None)
    assert normexp.sweep(*words, config_dir=tmp_path).folder == Path("outputs") / name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tour", "lesson"])
def test_a_notebook_runs(name, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "docs" / f"{name}.ipynb", as_version=4)
    path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([path] if path else [])])
    try:
        nbclient.NotebookClient(
            notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
    finally:
        os.environ["PYTHONPATH"] = path
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
