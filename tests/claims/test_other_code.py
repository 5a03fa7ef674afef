"""A verdict never rests on cached runs of other code than the one at hand."""

from pathlib import Path

import pytest

from normexp.claims.evidence import training_runs
from normexp.claims.spec.claim_files import load_claims

CLAIMS = load_claims(Path(__file__).parents[2] / "configs" / "claim")


@pytest.mark.parametrize(("recorded", "refused"), [({"normexp.norms.RMSNorm": "of old"}, True), ({}, False)])
def test_cached_run_of_other_code_is_refused(monkeypatch, tmp_path, recorded, refused):
    config = {"norm": {"_target_": "normexp.norms.RMSNorm"}}
    cached = {"config": config, "sources": recorded, "seconds": 1.0, "execution": {}}
    monkeypatch.setattr(training_runs, "read_summary", lambda folder: cached)
    runs = training_runs.Runs(CLAIMS["P08"], tmp_path)
    if not refused:
        assert runs.summary("rmsnorm", "", 0, 0.1)[0] is cached
        return
    with pytest.raises(
        ValueError, match=r"computed by another version of normexp.norms.RMSNorm; .*out=<another>"
    ):
        runs.summary("rmsnorm", "", 0, 0.1)
