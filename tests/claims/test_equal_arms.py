"""The table of equal arms: what is compared, and what it says of the judge's error rate."""

import json

import numpy as np
from calibrate import halved
from settings import errors

from normexp.claims.pages.error_rates import chance, most_errors
from normexp.claims.pages.verdicts_page import EQUAL_ARMS, page_of


def test_an_arms_first_seeds_meet_its_others_on_the_same_examples():
    setting = errors({"a": 0.1, "b": 0.2}, n=9)
    found = halved(setting, ("b", ""))
    first, second = found.outcomes["a", ""], found.outcomes["b", ""]
    assert first.seeds.tolist() == second.seeds.tolist() == [0, 1, 2, 3]
    whole = setting.outcomes["b", ""].examples
    assert np.array_equal(first.examples, whole[:4])
    assert np.array_equal(second.examples, whole[4:8])
    assert (found.design, found.guess) == (setting.design, setting.guess)


def test_the_page_counts_what_is_called_different(tmp_path):
    row = {
        "claim": "P01",
        "arm": "none",
        "effect": 0.1,
        "interval": [-0.1, 0.3],
        "p": 0.2,
        "different": False,
    }
    path = tmp_path / EQUAL_ARMS
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([row, row | {"arm": "batchnorm", "p": 0.01, "different": True}]))
    text = page_of({}, {}, tmp_path)
    assert "1 of 2 are" in text
    assert "| P01 | batchnorm | 0.1 [-0.1, 0.3] | 0.01 | **yes** |" in text


def test_chance_is_one_minus_the_probability_of_fewer_errors():
    assert abs(chance(1, 40) - (1 - 0.95**40)) < 1e-12
    assert chance(0, 40) == 1.0
    for trials in (40, 100, 2000):
        most = most_errors(trials)
        assert chance(most, trials) > 0.05 >= chance(most + 1, trials)
    assert most_errors(40) == 4
