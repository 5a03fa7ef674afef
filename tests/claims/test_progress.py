"""The plan counts what is missing, and each run says which one it is."""

import dataclasses
import re

import pytest

from normexp.claims.evidence.claim_progress import to_train
from normexp.claims.evidence.cost import run_count
from normexp.claims.evidence.training_runs import Runs
from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.claim import Claim
from normexp.claims.verify_claims import plan, verify

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
    seeds=[5, 6],
    comparisons=[Comparison(kind="greater", arm="noisy", baseline="none", margin=2.0)],  # refuted at once
    seconds=1.0,
)


@pytest.fixture(autouse=True)
def no_figure(monkeypatch):
    monkeypatch.setattr("normexp.claims.verify_claims.draw", lambda *arguments: None)


def test_each_run_is_counted_and_the_cache_takes_none(tmp_path, capsys):
    assert to_train(CLAIM, Runs(CLAIM, tmp_path / "cache")) == 12  # two arms are one
    assert "at most 12 of 18 runs to train" in plan([CLAIM], tmp_path, tuned=True)
    verify(CLAIM, tmp_path, tuned=True, command="")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[1] for line in lines] == [f" {n} of at most 12" for n in range(1, 11)]
    assert lines[0] == "  X9: 1 of at most 12: noisy seed 0, about 12 s left"
    assert all(re.search(r"about [\d.:]+ (s|min) left$", line) for line in lines)
    assert to_train(CLAIM, Runs(CLAIM, tmp_path / "cache")) == 0  # decided at the first look
    assert "at most 0 of 18 runs to train (quick budget), about 0 s" in plan([CLAIM], tmp_path, tuned=True)


def test_runs_that_tune_are_counted_and_tune_none_has_none(tmp_path):
    tuned = dataclasses.replace(CLAIM, tune={"lr": [0.1, 0.2], "seeds": 1})
    assert run_count(tuned) == 24
    assert (
        to_train(tuned, Runs(tuned, tmp_path / "cache")) == 4 + 18
    )  # whose runs are shared is not known yet
    assert "at most 12 of" in plan([tuned], tmp_path, tuned=False)
