"""A claim trains each run alone, or those of an arm in one process where its yaml says so; a retry keeps the way."""

import shutil
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from normexp.claims.evidence.disk_runs import DiskRuns, RunKey
from normexp.claims.evidence.plan import Known, tuning_keys
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims, read_claim
from normexp.config.folder import CONFIGS
from normexp.config.run_spec import runs_of, specs
from normexp.runs import read_summary
from normexp.sweeps.cell import cells_of
from normexp.training.train import train

FIXED = [
    "data=digits", "data.train_size=128", "model.depth=1", "model.width=8", "max_steps=2", "batch_size=32",
    "trainer=cpu",
]  # fmt: skip
ARMS = {"first": ["norm=none"], "second": ["norm=layernorm"], "third": ["norm=batchnorm_noisy"]}


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def runs_in(cache: Path, **more) -> DiskRuns:
    asked = {"id": "X1", "name": "x", "sentence": "x", "source": "x", "covers": (), "evidence": "training"}
    claim = Claim(**({"arms": ARMS, "metric": "test/accuracy"} | asked | more), fixed=FIXED, seeds=[8, 16])
    return DiskRuns(claim, cache)


def train_missing(runs: DiskRuns, asked: list[RunKey]) -> list[int]:
    """What the engine does in processes of their own. Returns how many runs each process trained."""
    runs.rows(asked)
    missing = runs.missing(asked)
    cells = cells_of(missing, [""] * len(missing), [None] * len(missing))
    for cell in cells:
        train(cell.specs)
    return [len(cell.specs) for cell in cells]


def keys(arm: str, seeds: range) -> list[RunKey]:
    return [RunKey("", arm, "", seed, None) for seed in seeds]


def trained(runs: DiskRuns, arm: str, seeds: range) -> list[tuple[str, int | None]]:
    """(mode, number of replicas) of each seed's run, trained or from the cache."""
    asked = keys(arm, seeds)
    train_missing(runs, asked)
    found = [read_summary(spec.folder)["execution"] for spec in runs.specs(asked)]
    return [(execution["mode"], execution.get("replicas")) for execution in found]


def test_runs_are_trained_alone_unless_the_claim_says_otherwise(cache):
    assert trained(runs_in(cache), "first", range(2)) == [("alone", None)] * 2


def test_replicas_are_trained_together_once_and_apart_from_runs_alone(cache):
    runs = runs_in(cache, replicas=True)
    assert trained(runs, "first", range(3)) == [("replica", 3)] * 3  # a run alone of these seeds is there
    assert trained(runs, "first", range(5)) == [("replica", 3)] * 3 + [("replica", 2)] * 2
    assert train_missing(runs_in(cache, replicas=True), keys("first", range(5))) == []


def test_one_missing_replica_is_trained_again_as_a_replica(cache):
    runs = runs_in(cache, replicas=True)
    trained(runs, "second", range(3))
    (lost,) = runs.specs(keys("second", range(1, 2)))
    shutil.rmtree(lost.folder)
    again = runs_in(cache, replicas=True)
    assert trained(again, "second", range(3)) == [("replica", 3), ("replica", 1), ("replica", 3)]


def test_arm_that_cannot_be_trained_together_says_so_in_its_summaries(cache):
    assert trained(runs_in(cache, replicas=True), "third", range(2)) == [("alone", None)] * 2


def test_all_seeds_and_rates_of_an_arm_share_a_process(cache):
    rates = {"lr": [0.01, 0.1, 1e30], "seeds": 2}
    runs = runs_in(cache, replicas=True, tune=rates, arms={"second": ARMS["second"]})
    asked = tuning_keys(runs.claim)
    assert train_missing(runs, asked) == [6]
    chosen = Known(runs.claim, None, runs).tuned()
    assert set(chosen) == {("second", "")}
    assert chosen["second", ""] in (0.01, 0.1)
    for spec in runs.specs(asked):
        assert read_summary(spec.folder)["execution"]["replicas"] == 6


@pytest.mark.parametrize("replicas", [False, True])
def test_a_run_in_the_cache_says_how_it_was_composed_as_any_run_does(cache, replicas):
    runs = runs_in(cache, replicas=replicas)
    trained(runs, "first", range(1, 2))
    (spec,) = runs.specs(keys("first", range(1, 2)))
    saved = spec.folder / ".hydra"
    names = {"config.yaml", "hydra.yaml", "overrides.yaml", "identity"}
    assert {path.name for path in saved.iterdir()} == names
    overrides = yaml.safe_load((saved / "overrides.yaml").read_text())
    assert {"norm=none", "seed=1", *FIXED} <= set(overrides)
    assert specs(overrides)[0].digest == (saved / "identity").read_text()
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
