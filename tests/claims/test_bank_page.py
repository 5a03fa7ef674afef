"""The page of the bank is what the committed ledger gives, and its numbers are those of the runs."""

import re
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from normexp.claims.evidence.measured import measured
from normexp.claims.pages.bank_page import draw_rates, page
from normexp.claims.spec.bank import load_bank

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "docs" / "evidence" / "bank"
PAGE = ROOT / "docs" / "bank.md"
BANK = load_bank()
SETTINGS = measured(BANK)


def test_the_committed_page_is_made_from_the_committed_ledger():
    assert page(BANK, SETTINGS, "images/bank_rates.png") == PAGE.read_text()


@pytest.mark.parametrize("name", ["digits_mlp", "mnist_mlp_small_batch"])
def test_errors_are_those_of_each_seeds_best_rate(name):
    """Recomputed here with pandas alone."""
    runs = pd.read_csv(LEDGER / f"{name}.csv").sort_values(
        ["val_accuracy", "val_loss"], ascending=[False, True]
    )
    best = runs.groupby(["norm", "seed"]).first()
    errors = {norm: 100 * (1 - best.loc[norm, "test_accuracy"]) for norm in BANK.norms}
    first = errors["none"]
    expected = [f"{first.mean():.2f}", *(f"{(errors[norm] - first).mean():+.2f}" for norm in BANK.norms[1:])]
    low, high = stats.ttest_1samp(errors["batchnorm"] - first, 0).confidence_interval(0.95)
    (line,) = re.findall(rf"^\| {re.escape(BANK.cells[name].what)} \| (.*\(.*) \|$", PAGE.read_text(), re.M)[
        :1
    ]
    assert [cell.split()[0] for cell in line.split(" | ")] == expected
    assert f"({low:+.2f} to {high:+.2f})" in line.split(" | ")[1]


@pytest.mark.integration
def test_the_figure_is_drawn(tmp_path):
    draw_rates(BANK.norms, SETTINGS, tmp_path / "rates.png")
    assert (tmp_path / "rates.png").read_bytes()[1:4] == b"PNG"
