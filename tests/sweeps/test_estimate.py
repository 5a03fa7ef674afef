"""What a plan says that runs will cost."""

import pytest

from normexp.config.run_spec import specs
from normexp.sweeps import estimate
from normexp.sweeps.estimate import Estimates, step_of, timed
from normexp.training.build import build

SMALL = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=16"]


def test_seconds_count_steps_monitors_and_validations(monkeypatch):
    """Against the sum by hand, for a step of 1 s."""
    monkeypatch.setattr(estimate, "timed", lambda work: 1.0)
    (spec,) = specs([*SMALL, "max_steps=100", "monitor=light"])
    every = [node["every_n_steps"] for node in spec.config["monitor"].values() if node.get("every_n_steps")]
    watched = 100 * sum(3 / steps for steps in every)
    assert Estimates().seconds(spec) == pytest.approx(0.1 + 100 * 1.0003 + watched + 10 * 0.008)
    (epochs,) = specs([*SMALL, "max_epochs=2", "batch_size=64"])
    assert Estimates().seconds(epochs) == pytest.approx(0.1 + 2 * (1149 // 64) * 1.0003 + 2 * 0.008)


@pytest.mark.integration
@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed"])
def test_a_wider_network_is_timed_as_slower(precision):
    narrow, wide = (
        timed(step_of(build(*specs([*SMALL, f"model.width={width}", f"trainer.precision={precision}"]))))
        for width in (8, 2048)
    )
    assert 0 < narrow < wide


def test_a_kind_that_is_not_timed_counts_as_the_others_do(monkeypatch):
    monkeypatch.setattr(estimate, "MOST_SECONDS", -1.0)
    seeds = [specs([*SMALL, "max_steps=0", f"norm={norm}"])[0] for norm in ("none", "layernorm")]
    estimates = Estimates()
    monkeypatch.setattr(estimates, "_kinds", {estimate.kind_of(seeds[0]): 60.0})
    said = estimates.describe(seeds, 1)
    assert said == (
        "about 2:00 min, if 1 run at a time on cores that nothing else uses: 2 core-minutes; timed for 1 of 2 runs"
    )
