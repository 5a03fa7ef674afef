"""The plan counts what is missing, and each run says which one it is."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from normexp.claims.evidence.disk_runs import DiskRuns, RunKey
from normexp.claims.evidence.plan import Known, most_missing
from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.claim import Claim
from normexp.claims.verify_claims import run_count, verify_all
from normexp.sweeps.options import Options

CLAIM = Claim(
    id="X9",
    name="x",
    sentence="x",
    source="x",
    covers=(),
    evidence="training",
    metric="test/accuracy",
    measure="accuracy",
    better="higher",
    arms={"noisy": ["norm=batchnorm_noisy"], "none": ["norm=none"], "same": ["norm=none"]},
    fixed=[
        "data=digits",
        "data.train_size=64",
        "model.depth=1",
        "model.width=4",
        "max_steps=1",
        "batch_size=32",
    ],
    seeds=5,
    comparisons=[Comparison(kind="greater", arm="noisy", baseline="none", margin=2.0)],  # refuted at once
    seconds=1.0,
)


@pytest.fixture(autouse=True)
def no_figure(monkeypatch):
    monkeypatch.setattr("normexp.claims.verify_claims.draw", lambda *arguments: None)


def to_train(claim: Claim, out: Path) -> int:
    return most_missing(claim, Known(claim, None, DiskRuns(claim, out / "cache")))


def ask(out: Path, *claims: Claim, **more) -> int:
    return verify_all(
        list(claims), out, tuned=more.pop("tuned", True), command="x claim={id}", options=Options(**more)
    )


def said(capsys, word: str) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if word in line]


@pytest.mark.integration
def test_each_run_is_counted_planned_and_trained_once_and_the_cache_takes_none(tmp_path, capsys):
    """Claims share their runs, and one that cannot run takes nobody along."""
    twin = dataclasses.replace(
        CLAIM, id="X8", name="y", arms={"noisy": ["norm=batchnorm_noisy"], "none": ["norm=none"]}
    )
    wrong = dataclasses.replace(CLAIM, id="X7", name="z", fixed=[*CLAIM.fixed, "norm.epss=1"])
    assert to_train(CLAIM, tmp_path) == 10  # two arms are one
    assert ask(tmp_path, CLAIM, plan=True) == 0
    out = capsys.readouterr().out
    assert "at most 10 of 15 runs to train" in out
    assert re.search(r"to run +10 runs", out)
    assert not (tmp_path / "cache").exists()
    assert ask(tmp_path, CLAIM, wrong, twin) == 1
    screen = capsys.readouterr()
    assert screen.err.startswith("Error: X7: norm.epss: no such key")
    lines = [line for line in screen.out.splitlines() if "  completed " in line]
    assert [line.split()[0] for line in lines] == [f"{n}/10" for n in range(1, 11)]
    assert len(list(tmp_path.glob("cache/.sweeps/*/logs/mlp/*.log"))) == 10
    assert json.loads((tmp_path / "X8" / "verdict.json").read_text())["runs"]["trained"] == 10
    assert not (tmp_path / "X7").exists()
    means = tmp_path / "X9" / "means"
    assert {path.parent.name for path in means.rglob("events.*")} == set(CLAIM.arms)
    verdict = json.loads((tmp_path / "X9" / "verdict.json").read_text())
    assert verdict["runs"]["trained"] == 10
    assert verdict["command"] == "x claim=X9"
    assert to_train(CLAIM, tmp_path) == 0
    assert ask(tmp_path, CLAIM) == 0
    out = capsys.readouterr().out
    assert "at most 0 of 15 runs to train\n" in out
    assert "completed" not in out
    assert json.loads((tmp_path / "X9" / "verdict.json").read_text())["runs"] == {
        **verdict["runs"], "trained": 0, "from_cache": 10,
    }  # fmt: skip


@pytest.mark.integration
def test_run_that_fails_leaves_its_claim_without_verdict_and_names_the_log(tmp_path, capsys):
    claim = dataclasses.replace(  # whose two arms are the same runs
        CLAIM,
        arms={"none": ["norm=none"], "same": ["norm=none"]},
        comparisons=[Comparison(kind="greater", arm="none", baseline="same", margin=2.0)],
    )
    (spec,) = DiskRuns(claim, tmp_path / "cache").specs([RunKey("", "none", "", 3, None)])
    folder = spec.folder
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("in the way")
    other = dataclasses.replace(claim, id="X8", name="y", first_seed=50)
    assert ask(tmp_path, claim, other) == 1
    out = capsys.readouterr()
    assert re.search(
        r"Error: X9: mlp/none-bs32-s3-.*: holds files that are no run of normexp.*\.log\)", out.err
    )
    assert (tmp_path / "X8" / "verdict.json").exists()
    assert not (tmp_path / "X9").exists()


def test_runs_that_tune_are_counted_and_tune_none_has_none(tmp_path, capsys):
    tuned = dataclasses.replace(CLAIM, tune={"lr": [0.1, 0.2], "seeds": 1})
    assert run_count(tuned) == 21
    assert to_train(tuned, tmp_path) == 4 + 15  # whose runs are shared is not known yet
    ask(tmp_path, tuned, tuned=False, plan=True)
    assert said(capsys, "at most 10 of")
