"""What a run recorded is no part of its identity: reached, never reached and not looked for are three values."""

import math

import pandas as pd
import pytest
from committed import CLAIMS, altered

from normexp.claims.evidence import table
from normexp.claims.evidence.disk import row_of, words_of
from normexp.claims.evidence.metric import column_of, steps_to
from normexp.claims.evidence.table import read

SUMMARY = {
    "hash": "h", "choices": {"norm": "none"}, "status": "completed", "metrics": {"test/accuracy": 0.7}, "steps": 60,
    "seconds": 1.0, "execution": {"threads": 1}, "finished": "2026-01-01T00:00:00+00:00", "versions": {"torch": "2"},
}  # fmt: skip
VALIDATIONS = "step,epoch,seconds,metric,value\n" + "".join(
    f"{step},1,1,val/accuracy,{value}\n{step},1,1,val/loss,1\n"
    for step, value in ((20, 0.4), (40, 0.85), (60, 0.7))
)


@pytest.mark.parametrize(
    ("convergence", "kept"), [({"steps_to_0.9": 40}, 40.0), ({"steps_to_0.9": None}, math.inf)]
)
def test_a_target_is_reached_never_reached_or_not_looked_for(convergence, kept):
    row = row_of(SUMMARY | {"convergence": convergence})
    assert row["steps_to_0.9"] == kept
    assert math.isnan(row["steps_to_0.5"])


def test_all_steps_count_where_it_was_never_reached_and_nothing_does_where_nobody_looked():
    runs = pd.DataFrame({"steps": [60, 60], "steps_to_0.9": [math.inf, 40.0]})
    assert column_of("convergence/steps_to_0.9", runs).tolist() == [60, 40]
    with pytest.raises(
        ValueError, match=r"steps_to_0.9: 1 of 2 runs did not look for this target; evidence=none"
    ):
        column_of("convergence/steps_to_0.9", runs.assign(**{"steps_to_0.9": [math.nan, 40.0]}))


def test_what_a_run_did_not_look_for_is_in_its_validations(tmp_path):
    (tmp_path / "metrics.csv").write_text(VALIDATIONS)
    assert [steps_to(tmp_path, target) for target in (0.3, 0.4, 0.7, 0.9)] == [20, 20, 40, math.inf]
    other = tmp_path / "other"
    other.mkdir()
    (other / "metrics.csv").write_text("step,epoch,seconds,metric,value\n1,1,1,lr,1\n")
    with pytest.raises(ValueError, match=r"steps_to_0\.9: .* wrote down no validation"):
        steps_to(other, 0.9)


@pytest.mark.parametrize(
    "word", ["accuracies=[0.5]", "log_every_n_steps=1", "monitor=full", "monitor.a.every_n_steps=2"]
)
def test_runs_that_record_something_else_lie_in_a_folder_of_their_own(word, tmp_path):
    plain, other = (
        set(words_of("\n".join(words), tmp_path)) for words in (["norm=none"], ["norm=none", word])
    )
    assert "name=runs" in plain
    assert not any(part == "name=runs" for part in other)


def test_a_kept_run_counts_only_where_it_recorded_what_a_claim_reads(tmp_path, monkeypatch):
    claim = altered(CLAIMS["P14"], metric="logged/turn/*", arms={"a": [], "b": []}, manipulation=None)
    grid = pd.DataFrame({"arm": ["a"] * 3, "overrides": ["x", "y", "z"], "seed": 0, "lr": math.nan})
    runs = grid.drop(columns="arm").assign(status=["completed", "completed", "diverged"], asked_by="P01:1")
    monkeypatch.setattr(
        table, "runs_in", lambda evidence: runs.assign(**{"logged/turn/*": [1.0, math.nan, math.nan]})
    )
    assert read(tmp_path, grid, claim)["overrides"].tolist() == ["x", "z"]
    monkeypatch.setattr(table, "runs_in", lambda evidence: runs)
    assert read(tmp_path, grid, claim)["overrides"].tolist() == ["z"]
    assert read(tmp_path, grid, altered(claim, metric="test/error"))["overrides"].tolist() == ["x", "y", "z"]
