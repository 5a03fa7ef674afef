"""The sentence that a report begins with."""

import numpy as np
import pandas as pd
import pytest
from fabricated import write_study
from scipy import stats

from normexp.report.figures.layers import readable
from normexp.report.finding import finding, widened
from normexp.report.study import open_study
from normexp.report.tables import comparison, how_to_read


@pytest.fixture
def study(tmp_path):
    return open_study(write_study(tmp_path, ("none", "batchnorm"), (2, 32), seeds=4))


def test_intervals_hold_for_all_comparisons_together(study):
    rng = np.random.default_rng(0)
    differences = rng.normal(0.01, 0.02, (2, 4))
    rows = comparison(study, "none").query("arm == 'batchnorm'")
    ends = stats.t.interval(0.95, 3, loc=differences.mean(1), scale=stats.sem(differences, axis=1))
    table = rows.assign(difference=differences.mean(1), difference_low=ends[0], difference_high=ends[1])
    found = widened(table)
    low, high = stats.t.interval(
        1 - 0.05 / 2, 3, loc=differences.mean(1), scale=stats.sem(differences, axis=1)
    )
    assert list(found["low"]) == pytest.approx(low)
    assert list(found["high"]) == pytest.approx(high)


def test_no_clear_difference_is_said_as_what_remains_possible(study):
    table = comparison(study, "none")
    flat = table.assign(difference=0.001, difference_low=-0.02, difference_high=0.022)
    text = finding(study, flat, "none")
    assert text.startswith(
        "No arm differs from the network without a norm in test accuracy beyond its interval"
    )
    assert "points remain possible" in text


def test_the_largest_clear_difference_is_named_with_its_ends_in_order(study):
    table = comparison(study, "none")
    clear = table.assign(difference=-0.1, difference_low=-0.11, difference_high=-0.09)
    text = finding(study, clear, "none")
    assert "lower than the network without a norm" in text
    low, high = (float(word) for word in text.partition("norm (")[2].partition(";")[0].split(" to "))
    assert low < 10.0 < high


def test_one_seed_gives_no_interval(tmp_path):
    study = open_study(write_study(tmp_path, ("none", "batchnorm"), (2,), seeds=1))
    assert finding(study, comparison(study, "none"), "none").startswith("No interval can be given")


def test_bold_is_explained_only_where_something_is_bold(study):
    table = comparison(study, "none")
    assert "Bold" in how_to_read(study, table.assign(best=True))
    assert "Bold" not in how_to_read(study, table.assign(best=False))


def test_a_logarithmic_axis_leaves_out_what_would_press_the_others_together():
    near = pd.Series(np.geomspace(0.01, 1, 40))
    assert readable(near) == pytest.approx((0.01 / 1.6, 1.6))
    low, high = readable(pd.concat([near, pd.Series([1e-9])]))
    assert 0.001 < low < 0.1
    assert high < 2
