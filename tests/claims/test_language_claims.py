"""The claims over the population of language models: every arm can be built in its settings and takes its first steps,
and the plan keeps to what may be spent."""

import pytest
from committed import CLAIMS

from normexp.claims.spec.bank import load_bank
from normexp.config.run_spec import specs
from normexp.runs import read_summary
from normexp.training.train import train

LANGUAGE = {
    name: claim for name, claim in CLAIMS.items() if claim.drawn_from and claim.drawn_from.name == "texts"
}
BANK = load_bank("texts")
SMALL = (
    "data=python_docs",
    "data.train_size=2000",
    "data.context_length=16",
    "model.width=16",
    "model.depth=2",
)
RATES = 3  # of a setting's grid, round the best rate of its pilot
SHORT = ("max_steps=2", "batch_size=4", "log_every_n_steps=1", "val_every_n_steps=1")


def runs(claim):
    """Of a claim whose settings have pilots: three rates each, or one that the factor sets."""
    rates = RATES if claim.rate == "own" else 1
    return len(claim.settings) * len(claim.arms) * len(claim.levels) * rates * claim.seeds


def hours(claim):
    return runs(claim) * claim.seconds / 3600


def test_each_claim_asks_24_settings_for_at_most_three_core_hours():
    assert len(LANGUAGE) == 4
    for claim in LANGUAGE.values():
        assert len(claim.settings) == claim.first == 24
        assert hours(claim) <= 3, claim.id


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "P27" else pytest.mark.slow) for n in LANGUAGE]
)
@pytest.mark.filterwarnings("ignore")
def test_every_arm_takes_its_first_steps(name, tmp_path):
    claim = LANGUAGE[name]
    cell = next(iter(claim.cells.values()))
    for arm, own in claim.arms.items():
        factor = [f"{key}={levels[0]}" for key, levels in claim.factor.items() if not key.startswith("data.")]
        data = [word for word in cell.overrides if not word.startswith("data")]
        words = [*data, *SMALL, *claim.fixed, *own, *factor, *SHORT, f"outputs={tmp_path / arm}"]
        (asked,) = specs(words, rates=[0.003])
        train(asked)
        assert read_summary(asked.folder)["steps"] == 2
