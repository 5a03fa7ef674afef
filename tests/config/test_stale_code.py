"""A finished run says that its code has changed, and no verdict rests on it: files of a copy are edited."""

import os
import re
import shutil
import signal

import pytest
import pytorch_lightning as pl
from committed import CLAIMS, ROOT

from normexp.claims.evidence import training_runs
from normexp.claims.evidence.wanted import Wanted
from normexp.config.code import changed, in_words, record
from normexp.config.code.changes import OLDER
from normexp.config.code.imports import Code
from normexp.config.run_spec import specs
from normexp.training.build import build
from normexp.training.launch import launch

RUN = ("model=transformer", "model.heads=1", "norm=layernorm", "max_steps=0")
CHANGED = "\nCHANGED = True\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The summary of a finished run, and its configuration, which no test changes."""
    overrides = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=16", *RUN]
    overrides.append(f"outputs={tmp_path_factory.mktemp('finished')}")
    return launch(build(specs(overrides)[0])), overrides


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """Append to files of a copy of the project, which then counts as the present code."""

    def edited(*files: str, text: str = CHANGED) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(ROOT / "normexp", copy / "normexp", ignore=shutil.ignore_patterns("__pycache__"))
        for file in files:
            path = copy / "normexp" / file
            path.write_text(path.read_text() + text)
        monkeypatch.setattr(record, "HERE", Code(copy))

    return edited


def verdict_reads(summary, monkeypatch, tmp_path, claim="P08"):
    """What a claim does with a run that is in its cache."""
    for read in ("read_summary", "finished_summary"):
        monkeypatch.setattr(training_runs, read, lambda folder: summary)
    runs = training_runs.Runs(CLAIMS[claim], tmp_path)
    return runs.summary(Wanted("rmsnorm", "", 0, 0.1))[0]


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("norms/functional.py", "normexp.norms.LayerNorm"),
        ("norms/base.py", "normexp.norms.LayerNorm"),
        ("norms/kernels/sample_kernels.py", "normexp.norms.LayerNorm"),
        ("models/attention.py", "normexp.models.Transformer"),
        ("lit_model.py", "normexp.training"),
        ("data/loader.py", "normexp.data.Digits"),
        ("schedules.py", "normexp.schedules.WarmupCosine"),
    ],
)
def test_finished_run_says_so_and_no_verdict_uses_it(
    file, named, finished, edit, monkeypatch, tmp_path, capsys
):
    summary, overrides = finished
    edit(file)
    launch(build(specs(overrides)[0]))
    classes = rf"another version of ([\w.]+, )*{named}(, [\w.]+)*; "
    assert re.search(rf"finished with {classes}name=<another> trains it again", capsys.readouterr().out)
    with pytest.raises(ValueError, match=rf"computed by {classes}.*out=<another>"):
        verdict_reads(summary, monkeypatch, tmp_path)


def test_code_that_the_run_does_not_reach_leaves_it_valid(finished, edit, monkeypatch, tmp_path, capsys):
    summary, overrides = finished
    others = ("norms/rms_norm.py", "models/gpt.py", "data/text.py", "monitors/hessian.py")
    aside = (
        "report/page.py",
        "runs/table.py",
        "claims/judge/decide.py",
        "config/checks.py",
        "training/progress.py",
    )
    edit(*others, *aside, "training/replicas/replica_module.py")
    launch(build(specs(overrides)[0]))
    assert "another version" not in capsys.readouterr().out
    assert verdict_reads(summary, monkeypatch, tmp_path) is summary


def test_changes_of_comments_and_docstrings_leave_a_run_valid(finished, edit):
    summary, _ = finished
    edit("norms/functional.py", "lit_model.py", text='\n# A comment.\n"""Said."""\n')
    assert changed(summary) == []


def test_replica_counts_what_trains_replicas(train, make_parts, edit):
    from normexp.training.launch import launch_replicas

    parts = [make_parts("norm=layernorm", "max_steps=1", f"seed={seed}") for seed in (0, 1)]
    summary = launch_replicas(parts)[0]
    assert changed(summary) == []
    edit("training/replicas/replica_module.py")
    assert changed(summary) == ["normexp.training.replicas"]


def test_monitors_count_for_a_verdict_that_reads_what_they_log(train, edit, monkeypatch, tmp_path):
    summary, _ = train(*RUN, "monitor=activations")
    edit("monitors/activation_statistics.py")
    assert changed(summary) == ["normexp.monitors.Activations"]
    assert changed(summary, watched=False) == []
    assert verdict_reads(summary, monkeypatch, tmp_path) is summary
    logged = next(id for id, claim in CLAIMS.items() if "logged/" in str(claim.metric))
    monkeypatch.setattr(training_runs.Runs, "folder", lambda self, run: tmp_path)
    with pytest.raises(ValueError, match=r"another version of normexp.monitors.Activations"):
        verdict_reads(summary, monkeypatch, tmp_path, logged)


def test_nothing_is_said_of_runs_that_recorded_nothing(finished):
    summary, _ = finished
    assert changed({**summary, "sources": {}}) == []
    assert changed({key: value for key, value in summary.items() if key != "sources"}) == []


def test_older_record_says_what_it_cannot_tell(finished, monkeypatch, tmp_path):
    """It held a digest of the one file that defines each class."""
    summary = {**finished[0], "sources": {"normexp.norms.LayerNorm": "0123456789ab"}}
    assert changed(summary) == [OLDER]
    assert in_words([OLDER]) == "code that was recorded in an older way and cannot be compared with today's"
    with pytest.raises(
        ValueError, match="computed by code that was recorded in an older way and cannot be compared"
    ):
        verdict_reads(summary, monkeypatch, tmp_path)


def test_run_that_resumes_with_other_code_belongs_to_no_version(train, edit, monkeypatch):
    class Stop(pl.Callback):
        def on_train_epoch_end(self, trainer, module):
            os.kill(os.getpid(), signal.SIGINT)

    run = ("model=transformer", "model.heads=1", "max_epochs=2")
    with pytest.raises(SystemExit):
        train(*run, callbacks=[Stop()])
    here = record.HERE
    edit("models/attention.py")
    old, new = (code.digest("normexp.models.Transformer") for code in (here, record.HERE))
    summary, _ = train(*run)
    assert summary["sources"]["normexp.models.Transformer"] == f"{old}+{new}"
    assert summary["sources"]["normexp.norms.LayerNorm"] == here.digest("normexp.norms.LayerNorm")
    assert changed(summary) == ["normexp.models.Transformer"]
    monkeypatch.setattr(record, "HERE", here)
    assert changed(summary) == ["normexp.models.Transformer"]
