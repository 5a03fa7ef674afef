"""Runs as plain values: what each is alone, whichever way it was asked for."""

import dataclasses
import pickle
import sys

import pytest
import yaml
from omegaconf import OmegaConf

from normexp.config import run_spec
from normexp.config.compose import compose
from normexp.config.run_spec import kind_of, resolved, specs


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
        ("schedule.warmup_steps=${seed}", "schedule.final_fraction=${lr}"),
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


def test_rates_that_the_optimizer_does_not_follow_are_refused():
    with pytest.raises(
        ValueError, match=r"^optimizer\.lr=0\.02: is the rate of each run, so other values of lr"
    ):
        specs(["optimizer.lr=0.02"], rates=[0.02, 0.1])
    (alone,) = specs(["optimizer.lr=0.02"], rates=[0.1])  # a claim whose factor is the optimizer's rate
    assert (alone.config["lr"], alone.config["optimizer"]["lr"]) == (0.1, 0.02)


def test_a_run_is_a_plain_value_that_travels():
    spec = specs(["norm=batchnorm", "monitor=[light,hessian]"])[0]
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert again.files() == spec.files()
    assert spec.choices["monitor"] == "activations+gradients+hessian" or "hessian" in spec.choices["monitor"]
    files = spec.files()
    assert yaml.safe_load(files["overrides.yaml"]) == ["norm=batchnorm", "monitor=[light,hessian]"]
    assert yaml.safe_load(files["config.yaml"])["data"]["seed"] == "${seed}"
    assert "hydra" not in yaml.safe_load(files["config.yaml"])


def test_changing_one_run_changes_no_other():
    first, second = specs([], seeds=[0, 1])
    before = str(first.config)
    second.config["data"]["seed"] = 99
    assert str(first.config) == before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seeds": [0, -1]}, "seed=-1: must be at least 0"),
        ({"rates": [0.1, -1]}, "lr=-1: must be at least 0"),
    ],
)
def test_a_later_seed_or_rate_is_checked_too(more, message):
    with pytest.raises(ValueError, match=message):
        specs([], **more)


def test_kinds_are_equal_for_runs_that_differ_in_seed_and_rate_alone():
    kinds = [kind_of(spec) for spec in specs([], seeds=[0, 1], rates=[0.1, 0.2])]
    assert len(set(kinds)) == 1
    different = [(), ("batch_size=8",), ("data.seed=3",), ("data.seed=4",), ("norm=none",)]
    assert len({kind_of(specs(own)[0]) for own in different}) == len(different)


@dataclasses.dataclass
class Queue:
    """Options of a launcher."""

    timeout_min: int = 60


def test_a_launcher_whose_class_was_imported_twice_does_not_stop_its_jobs(monkeypatch):
    """Hydra searches for plugins in each job, and pickle refuses the class of the first import."""
    cfg = OmegaConf.create({"lr": 0.1, "rate": "${lr}", "hydra": {"launcher": OmegaConf.structured(Queue)}})
    monkeypatch.setattr(sys.modules[__name__], "Queue", type("Queue", (), {}))
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(cfg)
    again = pickle.loads(run_spec._pickled(cfg))
    assert OmegaConf.to_container(again) == OmegaConf.to_container(cfg)
    assert again.hydra.launcher.timeout_min == 60


def test_a_lack_of_memory_is_one_line():
    from normexp.config.errors import one_line

    assert one_line(MemoryError()).startswith("out of memory (MemoryError): this process may take no more")
