"""The one loop of training claims: plan what is missing, train it, judge; disk and ledger are read alike."""

import dataclasses
import json

import numpy as np
import pytest
from asked import from_ledger

from normexp.claims.evidence.disk_runs import MOST_FAILURES, DiskRuns
from normexp.claims.evidence.keep import keep_runs
from normexp.claims.evidence.plan import Known, plan
from normexp.claims.evidence.stored import StoredEvidence
from normexp.claims.judge.comparison import Comparison
from normexp.claims.rounds import lacks_data
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim, Manipulation
from normexp.claims.verify_claims import verify_all
from normexp.config.run_spec import specs
from normexp.training.build import build

WORDS = (
    "recipe=plain", "trainer=cpu", "optimizer=sgd", "data=digits", "data.train_size=64", "model=mlp", "model.depth=1",
    "model.width=4", "batch_size=32", "max_steps=2",
)  # fmt: skip
CELL = BankCell(
    name="tiny", overrides=WORDS, labels={"data": "digits", "model": "MLP"}, rates=(0.01, 0.1, 1.0), test="test set",
    replicas=True, validation=288, chance=0.1, guess_loss=2.3, test_to_train=0.3,
)  # fmt: skip
CLAIM = Claim(
    id="Q05", name="n", sentence="s", source="s", covers=(), evidence="training", metric="test/error", measure="m",
    better="lower", arms={"ln": ["norm=layernorm"], "none": ["norm=none"]}, seeds=5, settings={"tiny": list(WORDS)},
    cells={"tiny": CELL}, comparisons=[Comparison(kind="smaller", arm="ln", baseline="none", log=True, margin=0.1)],
)  # fmt: skip

MEASURED = dataclasses.replace(
    CLAIM, seeds=2, arms={**CLAIM.arms, "bn": ["norm=batchnorm"]},
    fixed=["monitor=internal_covariate_shift", "monitor.internal_covariate_shift.every_n_steps=1"],
    manipulation=Manipulation(metric="logged/ics_cosine/*", measure="shift",
                              comparison=Comparison(kind="smaller", arm="bn", baseline="ln", margin=0.02)),
)  # fmt: skip


def test_a_plan_asks_for_every_run_once_and_for_none_that_failed_three_times(tmp_path):
    disk = DiskRuns(CLAIM, tmp_path)
    asked = plan(CLAIM, Known(CLAIM, None, disk))
    assert len({spec.folder for spec in asked}) == len(asked) == 2 * 5 * 3
    disk.failures.update({asked[0].folder: MOST_FAILURES, asked[1].folder: MOST_FAILURES - 1})
    again = {spec.folder for spec in plan(CLAIM, Known(CLAIM, None, disk))}
    assert again == {spec.folder for spec in asked[1:]}
    disk.failures.update({spec.folder: MOST_FAILURES for spec in asked})
    with pytest.raises(ValueError, match=f"30 runs failed {MOST_FAILURES} times, the first "):
        plan(CLAIM, Known(CLAIM, None, disk))


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["data=text_file", "data.path=no.txt", "model=gpt"], True),
        (["data=image_folder", "data.path=nowhere", "model=cnn"], True),
        (["data=cifar10_jpeg", "data.path=no.tar.gz", "model=cnn"], True),
        (["data=text_file", "data.path=there.txt", "model=gpt"], False),
        (["data=digits", "batch_size=100000"], False),
    ],
)
def test_data_that_are_absent_are_told_from_data_and_options_that_are_wrong(
    words, absent, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.txt").write_text("too short")
    with pytest.raises(ValueError, match=r"data\.path=|train split|batch_size=") as error:
        build(specs(words)[0])
    assert lacks_data(error.value) is absent


def test_a_missing_run_of_a_claim_in_one_setting_is_an_error(tmp_path):
    claim = dataclasses.replace(CLAIM, settings={}, cells={}, fixed=list(WORDS), replicas=True)
    with pytest.raises(ValueError, match="claim=Q05: 10 runs are missing, the first ln seed 0"):
        Known(claim, None, DiskRuns(claim, tmp_path)).values(claim.seed_range)


def test_a_metric_that_no_run_will_have_is_said_before_the_first_run(tmp_path):
    claim = dataclasses.replace(CLAIM, metric="steps_to_0.91")
    with pytest.raises(ValueError, match=r"claim=Q05: metric=steps_to_0\.91: no run will have it"):
        plan(claim, Known(claim, None, DiskRuns(claim, tmp_path)))


@pytest.mark.integration
def test_a_manipulation_check_asks_for_its_monitor_in_the_arms_that_it_compares_alone(tmp_path):
    asked = plan(MEASURED, Known(MEASURED, None, DiskRuns(MEASURED, tmp_path)))
    watched = {spec.folder.name.split("-")[0]: bool(spec.config.get("monitor")) for spec in asked}
    assert watched == {"layernorm": True, "none": False, "batchnorm": True}
    unwatched = dataclasses.replace(MEASURED, fixed=[])
    with pytest.raises(ValueError, match=r"claim=Q05: metric=logged/ics_cosine/\*: nothing logs ics_cosine"):
        plan(unwatched, Known(unwatched, None, DiskRuns(unwatched, tmp_path)))


@pytest.mark.slow
def test_a_claim_with_a_manipulation_check_is_judged(tmp_path):
    assert verify_all([MEASURED], tmp_path, command="x claim={id}", registries=[]) == 0
    found = json.loads((tmp_path / "Q05" / "verdict.json").read_text())
    assert found["manipulation"]["n"] == 1
    assert found["manipulation"]["runs"] == {"bn": 2, "ln": 2}


@pytest.mark.slow
def test_runs_are_trained_kept_and_judged_from_the_ledger_as_from_the_disk(tmp_path, capsys):
    assert verify_all([CLAIM], tmp_path, command="x claim={id}", registries=[]) == 0
    verdict = json.loads((tmp_path / "Q05" / "verdict.json").read_text())
    assert verdict["runs"]["trained"] == 10
    assert verdict["unregistered_because"].startswith("hand-picked settings make no word")
    disk = DiskRuns(CLAIM, tmp_path / "cache")
    known = Known(CLAIM, None, disk)
    assert plan(CLAIM, known) == []
    count = keep_runs(tmp_path / "ledger", known)
    assert count >= 30
    stored = StoredEvidence(tmp_path / "ledger")
    assert stored.check() == []
    table, again = from_ledger(CLAIM, stored)
    known("", CLAIM.settings)
    np.testing.assert_allclose(table["value"], known.table()["value"], rtol=1e-8)  # nine digits are kept
    assert (again["scope"], again["failures"]) == (verdict["scope"], verdict["failures"])
    assert (
        plan(CLAIM, Known(CLAIM, stored, DiskRuns(CLAIM, tmp_path / "elsewhere"))) == []
    )  # nothing to train
