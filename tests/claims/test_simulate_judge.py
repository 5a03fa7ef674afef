"""The simulation of the judge counts what it says, in a tiny run."""

import importlib.util
import sys

import numpy as np
import pytest
from committed import ROOT
from settings import family


@pytest.fixture(scope="module")
def simulation():
    spec = importlib.util.spec_from_file_location("simulate_judge", ROOT / "scripts" / "simulate_judge.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulate_judge"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.integration
def test_a_tiny_run_has_every_row_and_few_false_words(simulation):
    found = simulation.simulate(100)
    assert [row[0] for row in found["rows"]] == list(simulation.SHAPES)
    for row in found["rows"]:
        assert len(row) == len(found["columns"])
        assert all(float(row[place].rstrip("%")) <= 12 for place in (4, 7))  # 12 or more of 100 at 5%: 0.4%
    powers = [float(row[2].rstrip("%")) for row in found["power"]]
    assert powers == sorted(powers)
    assert powers[-1] == 100.0


def test_more_seeds_are_asked_for_as_the_judge_asks(simulation):
    """The rule on arrays is `near_margin` on settings."""
    from normexp.claims.judge.comparison import Comparison
    from normexp.claims.judge.outcomes import Outcomes, Setting
    from normexp.claims.judge.settings_count import near_margin

    generator = np.random.default_rng(0)
    true = generator.normal(size=60)
    seeds = true[:, None] + 1.0 * np.random.default_rng(5).normal(size=(60, 4))
    found = simulation.measured(true, 1.0, np.random.default_rng(5))
    asked = [place for place in range(60) if found[place] != seeds[place, :2].mean()]
    settings = [
        Setting(str(place), {("a", ""): Outcomes(np.arange(2), seeds[place, :2], np.zeros(2, bool))})
        for place in range(60)
    ]
    rule = near_margin(settings, [Comparison(kind="greater", arm="a", target=0.0)])
    assert [int(name) for name in rule] == asked
    assert 5 < len(asked) < 55


def test_halves_of_an_arm_are_its_seeds_once_each(simulation):
    (setting,) = family([0.0], n=12)
    own = setting.outcomes["a", ""].values
    halved = simulation.halved(setting, ("a", ""))
    assert halved.outcomes["a", ""].values.tolist() == own[:6].tolist()
    assert halved.outcomes["b", ""].values.tolist() == own[6:].tolist()
