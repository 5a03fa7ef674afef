"""A population of one's own from an empty folder, by commands alone: registered, drawn, trained and judged."""

import json
import subprocess
import sys

import pytest
from repository import git

BANK = """\
seed: 4711
settings: 6
shared: [recipe=plain, trainer=cpu, threads=1]
choose:
  data: {digits: [data=digits]}
  batch size: {key: batch_size, low: 16, high: 64}
  optimizer: {AdamW: [optimizer=adamw]}
strata:
  mlp: {share: 1, choose: {model: {MLP: [model=mlp, model.width=16]}, depth: {key: model.depth, values: [1, 2]}}}
rates: {AdamW: [0.003, 0.01, 0.03]}
length:
  {updates: 40, passes: 1, start_seconds: 5, seconds: 10, learned: 0.05, gain: 0.2, early: 4, widenings: 1, seed: 1000}
grid: {norms: [none, batchnorm], seeds: 2}
"""
CLAIM = """\
name: batchnorm_helps
sentence: BatchNorm makes small networks on digits more accurate.
source: me
covers: [mine]
evidence: training
metric: test/error
measure: share of wrong answers on test
better: lower
arms: {batchnorm: [norm=batchnorm], none: [norm=none]}
settings: {bank: mine, first: 6, at: final}
seeds: 2
comparison: {kind: smaller, arm: batchnorm, baseline: none, margin: practical}
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_population_of_ones_own_is_registered_trained_and_judged(tmp_path):
    def say(*words: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "normexp", *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def register(*words: str) -> None:
        say("register", *words, "bank=mine.yaml", "reason=to see")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", "a row")

    (tmp_path / "mine.yaml").write_text(BANK)
    (tmp_path / "bn.yaml").write_text(CLAIM)
    git(tmp_path, "init", "-q")
    assert "no row with these settings" in say(
        "register", "claim=bn.yaml", "bank=mine.yaml", "reason=early", status=2
    )
    register()
    assert "6 settings, 0 with a pilot" in say("evidence", "draw", "bank=mine.yaml")
    assert "no pilot yet: normexp evidence pilot bank=mine" in say(
        "verify", "claim=bn.yaml", "bank=mine.yaml", status=1
    )
    assert "6 settings have pilots" in say("evidence", "pilot", "bank=mine.yaml")
    register()
    register("claim=bn.yaml")
    assert "runs in " in say("evidence", "grid", "bank=mine.yaml")
    ledger = tmp_path / "evidence" / "mine"
    assert len(list(ledger.glob("bank/*.csv"))) == 12  # six settings, final and early
    say("evidence", "check", f"to={ledger}")

    said = say("verify", "claim=bn.yaml", "bank=mine.yaml")
    verdict = json.loads((tmp_path / "outputs" / "claims" / "bn" / "verdict.json").read_text())
    assert verdict["registered"]["row"] == 3
    assert verdict["n"] == 6
    assert (
        f"bn  {verdict['verdict'].upper()}: beyond the margin in {verdict['holds']} of 6 drawn settings"
        in said
    )
    assert "unregistered" not in said
    assert "2 of 2 rows came out again" in say("evidence", "audit", "n=2", "bank=mine.yaml")
    git(tmp_path, "diff", "--exit-code")
