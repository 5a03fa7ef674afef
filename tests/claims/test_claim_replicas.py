"""A claim trains each run alone, or those of an arm in one process where its yaml says so; a retry keeps the way."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from normexp.claims.evidence.training_runs import Runs, tune
from normexp.claims.evidence.wanted import Wanted, tuning
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims, read_claim
from normexp.config.folder import CONFIGS
from normexp.config.run_spec import runs_of, specs
from normexp.training.build import build
from normexp.training.train import train

FIXED = [
    "data=digits", "data.train_size=128", "model.depth=1", "model.width=8", "max_steps=2", "batch_size=32",
    "trainer=cpu",
]  # fmt: skip
ARMS = {"first": ["norm=none"], "second": ["norm=layernorm"], "third": ["norm=batchnorm_noisy"]}


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def runs_in(cache: Path, **more) -> Runs:
    asked = {"id": "X1", "name": "x", "sentence": "x", "source": "x", "covers": (), "evidence": "training"}
    claim = Claim(**asked, arms=ARMS, fixed=FIXED, seeds=[8, 16], **more)
    return Runs(claim, cache)


def train_missing(runs: Runs, asked: list[Wanted]) -> None:
    """What the engine does in processes of their own."""
    for cell, _ in runs.cells(asked):
        train(cell.specs)


def trained(runs: Runs, arm: str, seeds: range, level="") -> list[tuple[str, int | None]]:
    """(mode, number of replicas) of each seed's run, trained or from the cache."""
    asked = [Wanted(arm, level, seed, None) for seed in seeds]
    train_missing(runs, asked)
    found = [runs.summary(run)[0]["execution"] for run in asked]
    return [(execution["mode"], execution.get("replicas")) for execution in found]


def test_runs_are_trained_alone_unless_the_claim_says_otherwise(cache):
    runs = runs_in(cache)
    assert trained(runs, "first", range(2)) == [("alone", None)] * 2
    assert (runs.trained, runs.reused) == (2, 0)


def test_replicas_are_trained_together_once_and_apart_from_runs_alone(cache):
    runs = runs_in(cache, replicas=True)
    assert trained(runs, "first", range(3)) == [("replica", 3)] * 3  # a run alone of these seeds is there
    assert trained(runs, "first", range(5)) == [("replica", 3)] * 3 + [("replica", 2)] * 2
    assert (runs.trained, runs.reused) == (5, 0)
    again = runs_in(cache, replicas=True)
    assert trained(again, "first", range(5)) == [("replica", 3)] * 3 + [("replica", 2)] * 2
    assert (again.trained, again.reused) == (0, 5)


def test_one_missing_replica_is_trained_again_as_a_replica(cache):
    runs = runs_in(cache, replicas=True)
    trained(runs, "second", range(3))
    shutil.rmtree(runs.folder(Wanted("second", "", 1, None)))
    again = runs_in(cache, replicas=True)
    assert trained(again, "second", range(3)) == [("replica", 3), ("replica", 1), ("replica", 3)]
    assert again.trained == 1


def test_arm_that_cannot_be_trained_together_says_so_in_its_summaries(cache):
    assert trained(runs_in(cache, replicas=True), "third", range(2)) == [("alone", None)] * 2


def test_all_seeds_and_rates_of_an_arm_share_a_process(cache):
    rates = {"lr": [0.01, 0.1, 1e30], "seeds": 2}
    runs = runs_in(cache, replicas=True, tune=rates)
    runs.claim = dataclasses.replace(runs.claim, arms={"second": ARMS["second"]})
    train_missing(runs, tuning(runs.claim))
    chosen = tune(runs.claim, runs)
    assert set(chosen) == {("second", "")}
    assert chosen["second", ""] in (0.01, 0.1)
    for lr in rates["lr"]:
        for seed in (1000, 1001):
            summary, _ = runs.summary(Wanted("second", "", seed, lr))
            assert summary["execution"]["replicas"] == 6


@pytest.mark.parametrize("replicas", [False, True])
def test_a_run_in_the_cache_says_how_it_was_composed_as_any_run_does(cache, replicas):
    runs = runs_in(cache, replicas=replicas)
    trained(runs, "first", range(1, 2))
    _, folder = runs.summary(Wanted("first", "", 1, None))
    saved = folder / ".hydra"
    names = {"config.yaml", "hydra.yaml", "overrides.yaml", "identity"}
    assert {path.name for path in saved.iterdir()} == names
    overrides = yaml.safe_load((saved / "overrides.yaml").read_text())
    assert {"norm=none", "seed=1", *FIXED} <= set(overrides)
    assert build(specs(overrides)[0]).digest == (saved / "identity").read_text()
    (again,) = runs_of(OmegaConf.load(saved / "config.yaml"), (), choices={"model": "mlp", "norm": "none"})
    assert again.digest == (saved / "identity").read_text()


def test_replicas_are_part_of_the_protocol_where_they_are_asked_for(tmp_path):
    text = (CONFIGS / "claim" / "P12.yaml").read_text()
    path = tmp_path / "P12.yaml"
    path.write_text(text + "\nreplicas: true\n")
    known = load_claims(CONFIGS / "claim")["P12"]
    assert read_claim(path).protocol != known.protocol
    path.write_text(text + "\nreplicas: false\n")
    assert read_claim(path).protocol == known.protocol
    path.write_text(text + "\nreplicas: 16\n")
    with pytest.raises(ValueError, match="replicas=16: must be true or false"):
        read_claim(path)
