"""The widening rule on finished runs: when a grid grows, at which end, and when it stops."""

import dataclasses

import pandas as pd
import pytest

from normexp.claims.evidence.claim_runs import ClaimCell
from normexp.claims.evidence.widened_grid import grids, widened_bank, widest_grid
from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.bank import Bank, BankCell
from normexp.claims.spec.claim import Claim

RATES, SEEDS, NORMS = (0.01, 0.03, 0.1), 5, ("none", "batchnorm")
CELL = BankCell(
    name="c", labels={"data": "MNIST", "model": "MLP"}, overrides=("model=mlp",), rates=RATES, test="test set",
    replicas=True, validation=1000, chance=0.1, guess_loss=2.3, test_to_train=1.0,
)  # fmt: skip
BANK = Bank(norms=NORMS, seeds=SEEDS, cells={"c": CELL})
CLAIM = Claim(
    id="Q04", name="n", sentence="s", source="s", covers=(), evidence="training", metric="test/error", seeds=SEEDS,
    arms={"bn": ["norm=batchnorm"], "plain": ["norm=none"]}, settings={"c": []},
    comparisons=[Comparison(kind="smaller", arm="bn", baseline="plain")],
)  # fmt: skip


def runs(best: dict[str, list[float]], rates=RATES) -> pd.DataFrame:
    """A run of each norm, seed and rate. The nearer its rate to the seed's best one, the better."""
    return pd.DataFrame(
        {"cell": "c", "norm": norm, "lr": lr, "seed": seed, "status": "completed", "train_loss": 1.0,
         "val_accuracy": 1 - abs(lr - own) / 10, "val_loss": 1.0, "hash": f"{norm}-{lr}-{seed}"}
        for norm, of in best.items() for seed, own in enumerate(of) for lr in rates
    )  # fmt: skip


CALM = {"none": [0.03] * 5, "batchnorm": [0.03] * 4 + [0.1]}  # one seed of five is no more than a fifth
LOW = {"none": [0.03] * 5, "batchnorm": [0.03] * 3 + [0.001] * 2}
BOTH = {"none": [0.001] * 5, "batchnorm": [9.0] * 5}


def test_a_grid_stays_where_few_seeds_take_an_edge():
    assert grids(runs(CALM), CELL, "error", 10) == [RATES]


def test_a_grid_grows_for_all_arms_at_the_end_that_one_arm_takes():
    asked = (0.00333333, *RATES)
    assert grids(runs(LOW), CELL, "error", 10) == [RATES, asked]
    # its runs are still missing for one arm: nothing more is asked
    half = pd.concat([runs(LOW), runs({"none": LOW["none"]}, asked[:1])])
    assert grids(half, CELL, "error", 10)[-1] == asked


def test_a_grid_grows_twice_at_most():
    found = grids(runs(BOTH, widest_grid(RATES)), CELL, "error", 10)
    assert found == [RATES, (0.00333333, *RATES, 0.333333), widest_grid(RATES)]
    assert widest_grid(RATES) == pytest.approx((0.01 / 9, 0.01 / 3, *RATES, 1 / 3, 10 / 9), rel=1e-5)


def test_nothing_is_asked_before_the_grid_is_finished():
    assert grids(runs(LOW).iloc[:-1], CELL, "error", 10) == [RATES]
    assert widened_bank(BANK, runs(LOW).iloc[:-1]) == BANK
    assert widened_bank(BANK, runs(LOW)).cell("c").rates[1:] == RATES


def test_runs_at_wider_rates_are_ignored_where_the_rule_does_not_ask():
    assert grids(runs(CALM, widest_grid(RATES)), CELL, "error", 10) == [RATES]


def test_a_claim_trains_the_wider_runs_that_the_bank_lacks():
    nothing = pd.DataFrame({"cell": [], "lr": []})
    place = ClaimCell(CLAIM, CELL, BANK, runs(LOW))
    known = place.known(nothing)
    rates = place.grid(known)
    assert rates[1:] == RATES
    asked = place.wanted(rates)
    assert {(run.arm, run.seed) for run in asked} == {(arm, s) for arm in CLAIM.arms for s in range(SEEDS)}
    assert {run.lr for run in asked} == {rates[0]}
    wider = ClaimCell(CLAIM, CELL, BANK, runs(LOW, rates))
    assert wider.wanted(rates) == []  # the bank has widened its grid too
    at_one_rate = dataclasses.replace(CLAIM, rate="middle")
    assert dataclasses.replace(place, claim=at_one_rate).grid(known) == (0.03,)
    own = runs({"plain": [0.03] * 5, "bn": [0.03] * 5}).assign(level="")
    assert len(place.known(own)) == 30  # no run counts twice
