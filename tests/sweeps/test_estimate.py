"""What a plan says that runs will cost, beside what they cost."""

from types import SimpleNamespace

import pytest

from normexp.config.run_spec import specs
from normexp.sweeps.cell import Cell
from normexp.sweeps.grid import Estimates, pace_of, watching
from normexp.sweeps.places.place import Used
from normexp.sweeps.places.slurm import Slurm
from normexp.sweeps.places.this_machine import ThisMachine
from normexp.sweeps.screen import estimate, planned_and_used
from normexp.training.parts import build

SMALL = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=16"]


def test_seconds_count_steps_validations_and_the_final_evaluation(monkeypatch):
    """Against the sum by hand, for a step of 1 s and a sample of 1 ms."""
    monkeypatch.setattr("normexp.sweeps.grid.pace_of", lambda parts: (1.0, 1e-3))
    (spec,) = specs([*SMALL, "max_steps=100", "monitor=light"])
    every = [node["every_n_steps"] for node in spec.config["monitor"].values() if node.get("every_n_steps")]
    watched = 100 * sum(3 / steps for steps in every)
    by_hand = 0.1 + 100 * 1.03 + 100 * 0.0003 + watched + 10 * 0.008 + 1e-3 * (10 * 288 + 1149 + 288 + 360)
    assert Estimates().seconds(spec) == pytest.approx(by_hand)
    (epochs,) = specs([*SMALL, "max_epochs=2", "batch_size=64"])
    steps = 2 * (1149 // 64)
    by_hand = 0.1 + steps * 1.0303 + 2 * 0.008 + 1e-3 * (2 * 288 + 1149 + 288 + 360)
    assert Estimates().seconds(epochs) == pytest.approx(by_hand)


@pytest.mark.integration
@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed"])
def test_a_wider_network_is_timed_as_slower(precision):
    narrow, wide = (
        pace_of(build(*specs([*SMALL, f"model.width={width}", f"trainer.precision={precision}"])), 1)
        for width in (8, 2048)
    )
    assert 0 < narrow[0] < wide[0]
    assert 0 < narrow[1] < wide[1]


def test_one_norm_may_stand_for_all(monkeypatch):
    timed = []
    monkeypatch.setattr("normexp.sweeps.grid.pace_of", lambda parts: timed.append(1) or (1.0, 1e-3))
    for each_norm, count in ((True, 2), (False, 1)):
        timed.clear()
        estimates = Estimates(each_norm=each_norm)
        for norm in ("none", "batchnorm"):
            for seed in range(2):
                estimates.seconds(*specs([*SMALL, f"norm={norm}", f"seed={seed}", "max_steps=10"]))
        assert len(timed) == count


def test_monitors_count_by_their_pace():
    assert watching({"hessian": {"every_n_steps": 100}, "charts": {}, "x": None}) == 0.75
    assert watching({"gradients": {"every_n_steps": 100}}) == 0.03


def test_the_end_names_planned_beside_used():
    spec = specs([*SMALL, "max_steps=1"])[0]
    done = Cell("x", [spec], 30.0, "completed", memory=2 * 10**9, used=Used(45.0, 10**9))
    lost = Cell("y", [spec], 30.0, "failed", used=None)
    said = planned_and_used([done, lost], threads=1)
    assert said == (
        "planned 0.5 core-minutes, used 0.75 (150% of it); memory of a process: planned 2 GB, used 1 GB"
    )
    assert planned_and_used([lost], 1) is None


def test_the_estimate_says_what_it_leaves_out_on_a_cluster():
    cells = [Cell(str(seed), specs([*SMALL, f"seed={seed}"]), 90.0) for seed in range(4)]
    places = [SimpleNamespace(at_once=2, threads=3, beside=kind.beside) for kind in (ThisMachine, Slurm)]
    here, slurm = (estimate(cells, place) for place in places)
    assert here == "about 3:00 min: 18 core-minutes"
    assert slurm == "about 3:00 min plus the wait in the queue and the start of each job: 18 core-minutes"
