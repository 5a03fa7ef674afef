"""The widening rule on finished runs: when a grid grows, at which end, and when it stops."""

import pandas as pd

from normexp.claims.evidence.keep import grid_claim
from normexp.claims.evidence.plan import Known
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import BankCell

RATES, SEEDS, NORMS = (0.01, 0.03, 0.1), 5, ("none", "batchnorm")
CELL = BankCell(
    name="c", labels={"data": "MNIST", "model": "MLP"}, overrides=("model=mlp",), rates=RATES, test="test set",
    replicas=True, norms=NORMS, validation=1000, chance=0.1, guess_loss=2.3, test_to_train=1.0,
)  # fmt: skip
BANK = Bank(name="b", norms=NORMS, seeds=SEEDS, cells={"c": CELL})
WIDEST = (0.00111111, 0.00333333, *RATES, 0.333333, 1.11111)  # all rates that the rule could ask for


def runs(best: dict[str, list[float]], rates=RATES) -> pd.DataFrame:
    """A run of each norm, seed and rate. The nearer its rate to the seed's best one, the better."""
    return pd.DataFrame(
        {"cell": "c", "norm": norm, "level": "", "lr": lr, "seed": seed, "status": "completed", "train_loss": 1.0,
         "val_accuracy": 1 - abs(lr - own) / 10, "val_loss": 1.0, "hash": f"{norm}-{lr}-{seed}"}
        for norm, of in best.items() for seed, own in enumerate(of) for lr in rates
    )  # fmt: skip


class Finished:
    """These runs, as those of a disk."""

    def __init__(self, table: pd.DataFrame):
        self.table = table

    def rows(self, keys) -> pd.DataFrame:
        asked = [(key.arm, key.seed, key.lr) for key in keys]
        return self.table[
            [run in asked for run in zip(*(self.table[k] for k in ("norm", "seed", "lr")), strict=True)]
        ]


def grids(table: pd.DataFrame) -> list:
    """The grids that these runs ask for, one after the other."""
    known = Known(grid_claim(BANK), None, Finished(table))
    known.cell_runs(CELL, range(SEEDS))
    return known.grids["c"]


CALM = {"none": [0.03] * 5, "batchnorm": [0.03] * 4 + [0.1]}  # one seed of five is no more than a fifth
LOW = {"none": [0.03] * 5, "batchnorm": [0.03] * 3 + [0.001] * 2}
BOTH = {"none": [0.001] * 5, "batchnorm": [9.0] * 5}


def test_a_grid_stays_where_few_seeds_take_an_edge():
    assert grids(runs(CALM)) == [RATES]


def test_a_grid_grows_for_all_arms_at_the_end_that_one_arm_takes():
    asked = (0.00333333, *RATES)
    assert grids(runs(LOW)) == [RATES, asked]
    # its runs are still missing for one arm: nothing more is asked
    half = pd.concat([runs(LOW), runs({"none": LOW["none"]}, asked[:1])])
    assert grids(half)[-1] == asked


def test_a_grid_grows_twice_at_most():
    found = grids(runs(BOTH, WIDEST))
    assert found == [RATES, (0.00333333, *RATES, 0.333333), WIDEST]


def test_nothing_is_asked_before_the_grid_is_finished():
    assert grids(runs(LOW).iloc[:-1]) == [RATES]
    assert grids(runs(LOW))[-1][1:] == RATES


def test_runs_at_wider_rates_are_ignored_where_the_rule_does_not_ask():
    assert grids(runs(CALM, WIDEST)) == [RATES]
