"""Runs as plain values: what each is alone, whichever way it was asked for."""

import pickle

import pytest
import yaml
from refusals import refused

from normexp.config.compose import compose
from normexp.config.run_spec import resolved, specs


def alone(*overrides: str) -> dict:
    """The slow way: Hydra composes and OmegaConf resolves one run."""
    return resolved(compose(overrides)[0])


@pytest.mark.integration
@pytest.mark.parametrize(
    "overrides",
    [
        ("norm=batchnorm",),
        ("model=transformer", "model.width=32", "optimizer=adamw"),
        ("data.split_seed=${seed}", "name=x${lr}"),  # a value inside a text: each is resolved by itself
        ("name=${oc.select:norm.none,x}", "outputs=o"),
        ("schedule.warmup_steps=${seed}", "optimizer.weight_decay=${lr}"),
    ],
)
def test_runs_at_seeds_and_rates_are_what_each_is_alone(overrides):
    found = specs(overrides, seeds=[0, 7], rates=[0.1, 1, 2.5])
    assert len(found) == 6
    for spec in found:
        seed, rate = spec.config["seed"], spec.config["lr"]
        assert spec.config == alone(*overrides, f"seed={seed}", f"lr={rate}")
        (single,) = specs([*overrides, f"seed={seed}", f"lr={rate}"])
        assert (single.digest, single.folder, single.choices) == (spec.digest, spec.folder, spec.choices)
        assert single.files() == spec.files()
        (again,) = specs(spec.overrides)
        assert again.digest == spec.digest
    assert [(spec.config["lr"], spec.config["seed"]) for spec in found[:3]] == [(0.1, 0), (0.1, 7), (1, 0)]


def test_a_run_is_a_plain_value_that_travels():
    spec = specs(["norm=batchnorm", "monitor=[light,hessian]"])[0]
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert again.files() == spec.files()
    assert spec.choices["monitor"] == "activations+gradients+hessian" or "hessian" in spec.choices["monitor"]
    files = spec.files()
    assert yaml.safe_load(files["overrides.yaml"]) == ["norm=batchnorm", "monitor=[light,hessian]"]
    assert yaml.safe_load(files["config.yaml"]) == spec.config


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seeds": [0, -1]}, "seed=-1: must be at least 0"),
        ({"rates": [0.1, -1]}, "lr=-1: must be at least 0"),
    ],
)
def test_a_later_seed_or_rate_is_checked_too(more, message):
    with refused(message):
        specs([], **more)
