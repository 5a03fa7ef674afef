"""What a plan says that runs will take."""

import pytest

from normexp.config.run_spec import specs
from normexp.sweeps import estimate as module
from normexp.sweeps.estimate import estimate, seconds_of, step_of
from normexp.training.build import build
from normexp.training.cost import timed

SMALL = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=16"]


def test_an_estimate_adds_up_what_each_run_takes(monkeypatch):
    taken = lambda spec: {"steps": 0.6 * spec.config["max_steps"], "monitors": 0.0, "start": 6.0}  # noqa: E731
    monkeypatch.setattr(module, "seconds_of", taken)
    found = specs([*SMALL, "max_steps=100"]) + specs([*SMALL, "max_steps=300", "seed=1"])
    parts = "4:12 min of one core: steps 4:00 min, start 12 s"
    assert estimate(found, 2) == f"about 3:06 min if 2 run at a time on idle cores ({parts})"
    assert estimate(found[:1], 2).startswith("about 1:06 min on an idle core (1:06 min of one core: ")


@pytest.mark.integration
def test_longer_runs_validate_and_measure_more_often():
    base = ["trainer=cpu", "model.depth=1", "val_every_n_steps=1"]
    words = (["max_steps=2"], ["max_steps=40"], ["max_steps=40", "monitor=none"])
    short, long, bare = (seconds_of(*specs([*base, *more])) for more in words)
    assert all(long[part] > 2 * short[part] > 0 for part in ("steps", "monitors"))
    assert long["start, evaluation and saving"] > short["start, evaluation and saving"]
    assert bare["monitors"] == 0


@pytest.mark.integration
@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed"])
def test_a_wider_network_is_timed_as_slower(precision):
    def seconds(width: int) -> float:
        parts = build(*specs([*SMALL, f"model.width={width}", f"trainer.precision={precision}"]))
        return timed(step_of(parts, parts.make_trainer(enable_checkpointing=False))[0])

    narrow, wide = seconds(8), seconds(2048)
    assert 0 < narrow < wide
