"""Claims on tasks within a run, on noisy test images and on adversarial noise: every arm takes its first steps, and its
number is there."""

import math

import pytest
from committed import CLAIMS

from normexp.claims.evidence.metric import check_metric, read_logged
from normexp.config.run_spec import specs
from normexp.runs import read_summary
from normexp.training.train import train

NAMES = ("P29", "P30", "P30a", "P30b", "P31", "P31a")
SMALL = {
    "MLP": ["model=mlp", "model.width=8", "model.depth=1"],
    "CNN": ["model=cnn", "model.width=4", "model.depth=[1,1]"],
}
SHORT = ["batch_size=32", "trainer=cpu", "recipe=plain", "log_every_n_steps=1", "lr=0.05"]
TWO = ["max_steps=2", "val_every_n_steps=1", "data.task_batches=1"]


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in ("P29", "P30", "P31") else []) for n in NAMES]
)
def test_every_arm_takes_its_first_steps_and_has_its_number(name, tmp_path):
    claim = CLAIMS[name]
    model = "MLP" if name.startswith("P29") else "CNN"
    for arm, own in claim.arms.items():
        words = ["data=digits", *SMALL[model], *SHORT, *claim.fixed, *own, *TWO, f"outputs={tmp_path / arm}"]
        (asked,) = specs(words)
        check_metric(claim, claim.metric_of(arm), asked.config)
        train(asked)
        summary, metric = read_summary(asked.folder), claim.metric_of(arm)
        logged = metric.startswith("logged/")
        value = (
            read_logged(metric, summary, asked.folder) if logged else 1 - summary["metrics"]["test/accuracy"]
        )
        assert math.isfinite(value)
        assert -1 <= value <= 1
