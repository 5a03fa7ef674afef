"""A finished run says that its code has changed, and no verdict rests on it: files of a copy are edited."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import golden_runs
import pytest
import pytorch_lightning as pl
from committed import CLAIMS, ROOT

from normexp.claims.evidence import disk_runs
from normexp.claims.evidence.disk_runs import DiskRuns, RunKey
from normexp.config.code import changed, different_code, equality, in_words, parts
from normexp.config.code.parts import NORMEXP, ROOMS, named_parts
from normexp.config.run_spec import RunSpec, specs
from normexp.training.parts import build
from normexp.training.train import launch

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
    """Append to files of a copy of the project, which then counts as the present code. Returns the copy."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "normexp", copy / "normexp", ignore=shutil.ignore_patterns("__pycache__"))

    def edited(*files: str, text: str = CHANGED) -> Path:
        for file in files:
            path = copy / "normexp" / file
            path.write_text((path.read_text() if path.exists() else "") + text)
        for read in (named_parts, parts._tree):
            read.cache_clear()
        for module in (parts, equality):
            monkeypatch.setattr(module, "ROOT", copy)
        return copy / "normexp"

    yield edited
    for read in (named_parts, parts._tree):
        read.cache_clear()


def verdict_reads(summary, monkeypatch, tmp_path, claim="P06b") -> str:
    """The hash of the run that a claim reads where this one is in its cache."""
    asked = CLAIMS[claim]
    monkeypatch.setattr(disk_runs, "read_checked", lambda folder: summary)
    monkeypatch.setattr(DiskRuns, "specs", lambda self, keys: [RunSpec({}, {}, "", tmp_path) for _ in keys])
    key = RunKey(next(iter(asked.settings), ""), next(iter(asked.arms)), "", 0, 0.1)
    return DiskRuns(asked, tmp_path).rows([key])["hash"].item()


@pytest.mark.integration
@pytest.mark.parametrize(
    "file",
    [
        "norms/functional.py",
        "norms/layer_norm.py",
        "models/transformer_stack.py",
        "lit_model.py",
        "data/base.py",
        "schedules.py",
    ],
)
def test_finished_run_says_so_and_no_verdict_uses_it(file, finished, edit, monkeypatch, tmp_path, capsys):
    summary, overrides = finished
    edit(file)
    launch(build(specs(overrides)[0]))
    named = "another version of normexp." + file.removesuffix(".py").replace("/", ".")
    assert f"finished with {named}; name=<another> trains it again" in capsys.readouterr().out
    with pytest.raises(ValueError, match=rf"computed by {re.escape(named)}; .*out=<another>"):
        verdict_reads(summary, monkeypatch, tmp_path)


def test_code_that_computes_nothing_leaves_a_run_valid(finished, edit, monkeypatch, tmp_path, capsys):
    summary, overrides = finished
    edit("report/page.py", "runs/table.py", "config/checks.py", "training/progress.py", "monitors/hessian.py")
    edit("norms/functional.py", "lit_model.py", text='\n# A comment.\n"""Said."""\n')
    launch(build(specs(overrides)[0]))
    assert "another version" not in capsys.readouterr().out
    assert verdict_reads(summary, monkeypatch, tmp_path) == summary["hash"]


def test_added_norm_leaves_a_run_valid(finished, edit):
    edit("norms/mine.py", text="class Mine: pass\n")
    edit("norms/__init__.py", text="\nfrom normexp.norms.mine import Mine\n__all__ += ['Mine']\n")
    assert changed(finished[0]) == []


def test_name_that_leads_to_another_file_counts(finished, edit):
    room = edit("norms/mine.py", text="class LayerNorm: pass\n")
    path = room / "norms" / "__init__.py"
    path.write_text(path.read_text().replace("norms.layer_norm import", "norms.mine import"))
    edit()
    assert changed(finished[0]) == ["normexp.norms", "normexp.norms.mine"]


def test_moved_file_leaves_a_run_valid_and_a_deleted_one_does_not(finished, edit):
    room = edit()
    (room / "training" / "deep").mkdir()
    (room / "training" / "recorder.py").rename(room / "training" / "deep" / "recorder.py")
    for path in room.rglob("*.py"):
        path.write_text(
            path.read_text().replace("normexp.training.recorder", "normexp.training.deep.recorder")
        )
    edit()
    assert changed(finished[0]) == []
    (room / "training" / "deep" / "recorder.py").unlink()
    edit()
    assert changed(finished[0]) == [NORMEXP]
    assert in_words([NORMEXP]) == "another version of normexp"


@pytest.mark.integration
def test_monitors_count_for_a_verdict_that_reads_what_they_log(train, edit, monkeypatch, tmp_path):
    summary, _ = train(*RUN, "monitor=activations")
    edit("monitors/activations.py")
    assert changed(summary) == ["normexp.monitors.activations"]
    assert changed(summary, watched=False) == []
    assert verdict_reads(summary, monkeypatch, tmp_path) == summary["hash"]
    logged = next(id for id, claim in CLAIMS.items() if "logged/" in str(claim.metric))
    with pytest.raises(ValueError, match=r"another version of normexp.monitors.activations"):
        verdict_reads(summary, monkeypatch, tmp_path, logged)


def test_own_class_that_changed_counts(finished):
    summary = finished[0]
    assert changed({**summary, "sources": summary["sources"] | {"own.Norm": "0"}}) == ["own.Norm"]


def test_nothing_is_said_of_runs_that_recorded_nothing(finished):
    summary, _ = finished
    assert changed({**summary, "sources": {}}) == []
    assert changed({key: value for key, value in summary.items() if key != "sources"}) == []


@pytest.mark.integration
def test_run_that_resumes_with_other_code_belongs_to_no_version(train, edit, monkeypatch):
    class Stop(pl.Callback):
        def on_train_epoch_end(self, trainer, module):
            os.kill(os.getpid(), signal.SIGINT)

    run = ("model=transformer", "model.heads=1", "max_epochs=2")
    with pytest.raises(SystemExit):
        train(*run, callbacks=[Stop()])
    old = parts.parts(NORMEXP)
    edit("models/transformer_stack.py")
    new = parts.parts(NORMEXP)
    summary, _ = train(*run)
    assert summary["sources"] == {NORMEXP: f"{old}+{new}"}
    assert changed(summary)


# Golden runs.


@pytest.fixture
def golden(monkeypatch, tmp_path):
    """Compare the golden runs of two versions, and write what is equal to a file that is read from then on."""
    path = tmp_path / "equal_code.json"
    path.write_text(equality.RECORD.read_text())
    monkeypatch.setattr(equality, "RECORD", path)
    equality._entries.cache_clear()

    def compared(
        before, after, *, digest="1", rooms=("all",), place="here", tests=("Transformer", "LayerNorm"),
        run="a", where=None,
    ):  # fmt: skip
        tested = [*tests, "Digits", "WarmupCosine"]
        sides = [
            {"version": {"commit": name, **version}, "rooms": rooms, "place": {"machine": machine},
             "runs": {run: {"digest": found, "tests": tested}}}
            for name, version, found, machine in (("old", before, "1", "here"), ("new", after, digest, place))
        ]  # fmt: skip
        status = golden_runs.compare(*sides, path, where)
        equality._entries.cache_clear()
        return status

    yield compared
    equality._entries.cache_clear()


def version() -> dict[str, dict[str, str]]:
    return {room: dict(named_parts(parts.ROOT, room)) for room in ROOMS}


@pytest.mark.integration
def test_change_that_golden_runs_found_equal_does_not_count(finished, edit, golden, capsys):
    summary, before = finished[0], version()
    edit("norms/functional.py")
    assert changed(summary) == ["normexp.norms.functional"]
    assert golden(before, version()) == 0
    assert changed(summary) == []
    edit("norms/base.py")  # over a version between
    half = version()
    assert changed(summary) == ["normexp.norms.base"]  # the other was shown to be equal
    edit("lit_model.py")
    assert golden(half, version()) == 0
    assert changed(summary)
    assert changed({**summary, "config": {**summary["config"], "compile": True}})


def test_cut_record_of_golden_runs_is_named(finished, edit, golden):
    edit("norms/functional.py")
    text = equality.RECORD.read_text()
    equality.RECORD.write_text(text[: len(text) // 2])
    with pytest.raises(ValueError, match=r"equal_code\.json: damaged \(.*\); install normexp again"):
        changed(finished[0])


@pytest.mark.integration
def test_golden_runs_count_on_cpus_for_what_they_tested(finished, edit, golden):
    summary, before = finished[0], version()
    edit("norms/functional.py")
    assert golden(before, version()) == 0
    gpu = {**summary, "execution": {**summary["execution"], "device": "cuda:0"}}
    timm = {**summary, "config": {**summary["config"], "model": {"_target_": "normexp.models.Timm"}}}
    other = {**summary, "config": {**summary["config"], "optimizer": {"_target_": "torch.optim.Rprop"}}}
    assert changed(summary) == []
    assert changed(gpu) == changed(timm) == changed(other) == ["normexp.norms.functional"]
    assert different_code(summary["sources"]) == []
    assert different_code(summary["sources"], golden=False) == ["normexp.norms.functional"]


@pytest.mark.integration
def test_setting_that_was_changed_on_purpose_is_left_out(finished, edit, golden):
    summary, before = finished[0], version()
    edit("lit_model.py")
    run, where = (
        "mlp layernorm sgd trainer.accumulate_grad_batches=2",
        {"trainer.accumulate_grad_batches": "1"},
    )
    assert golden(before, version(), digest="2", run=run) == 1
    assert golden(before, version(), digest="2", run=run, where=where) == 0
    config = {**summary["config"], "trainer": {**summary["config"]["trainer"], "accumulate_grad_batches": 2}}
    assert changed(summary) == []
    assert changed({**summary, "config": config}) == ["normexp.lit_model"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("a: 1 became 2", {"digest": "2"}),
        ("machine: here and there", {"place": "there"}),
        ("normexp.norms.functional: differs and lies outside models", {"rooms": ["models"]}),
    ],
)
def test_versions_that_are_not_shown_to_be_equal_are_not_recorded(why, given, finished, edit, golden, capsys):
    before = version()
    edit("norms/functional.py")
    assert golden(before, version(), **given) == 1
    assert why in capsys.readouterr().out
    assert changed(finished[0]) == ["normexp.norms.functional"]


@pytest.mark.parametrize("ledger", ["bank", "claims"])
def test_records_of_the_ledger_by_class_are_equal_where_golden_runs_found_it(ledger, monkeypatch):
    """They were recorded before 40e1806; the answer for that commit, from which versions have parts."""
    since = equality._entries()["since"]
    monkeypatch.setattr(
        equality, "named_parts", lambda root, room: dict.fromkeys(equality._parts(since[room]))
    )
    found = json.loads((ROOT / "docs" / "evidence" / ledger / "code.json").read_text())
    equal = {name: not different_code(record) for name, record in found.items()}
    tripled = {name: {**record, "normexp.norms.BatchNorm": "0" * 12} for name, record in found.items()}
    assert all(different_code(record) for record in tripled.values())
    assert (sum(equal.values()), len(equal)) == {"bank": (50, 50), "claims": (104, 106)}[ledger]


def test_half_of_a_version_by_class_counts_as_changed():
    """A factor may have moved from one file to another: half of such a change computes something else."""
    known = equality._entries()["equal_classes"]
    norm, training = ("normexp.norms.LayerNorm", "normexp.training")
    (old, of_old), (new, of_new) = next(
        (one, two)
        for one in known[norm].items()
        for two in known[training].items()
        if not {*one[1]} & {*two[1]}
    )
    assert equality._differing_classes({norm: old, training: new}, True)
    assert not set(of_old) & set(of_new)


@pytest.mark.slow
def test_golden_runs_of_a_room_are_recorded(tmp_path):
    out = tmp_path / "data.json"
    script = ROOT / "scripts" / "golden_runs.py"
    subprocess.run(
        [sys.executable, script, "record", out, "--room", "data"],
        check=True,
        capture_output=True,
        timeout=300,
    )
    found = json.loads(out.read_text())
    assert {"CNN", "BatchNorm"} & {name for run in found["runs"].values() for name in run["tests"]} == set()
    assert "cnn batchnorm sgd data=cifar10_jpeg data.augment=true" in found["runs"]
    assert found["version"].keys() == {"commit", *ROOMS}
