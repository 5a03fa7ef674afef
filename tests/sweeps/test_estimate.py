"""What a plan says that runs will take."""

import pytest

from normexp.config.run_spec import specs
from normexp.sweeps import estimate as module
from normexp.sweeps.estimate import estimate, step_of, timed
from normexp.training.build import build

SMALL = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=16"]


def test_an_estimate_counts_training_steps(monkeypatch):
    monkeypatch.setattr(module, "timed", lambda work: 0.6)
    found = specs([*SMALL, "max_steps=100"]) + specs([*SMALL, "max_steps=300", "seed=1"])
    assert estimate(found, 2) == (
        "about 3:00 min if 2 run at a time on idle cores (4:00 min of one core); validation and monitors come on top"
    )
    assert estimate(found[:1], 2) == "about 1:00 min on an idle core; validation and monitors come on top"


@pytest.mark.integration
@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed"])
def test_a_wider_network_is_timed_as_slower(precision):
    narrow, wide = (
        timed(step_of(build(*specs([*SMALL, f"model.width={width}", f"trainer.precision={precision}"]))))
        for width in (8, 2048)
    )
    assert 0 < narrow < wide
