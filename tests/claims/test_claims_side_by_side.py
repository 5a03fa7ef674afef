"""A claim's runs share a process where that is faster, those of all arms or none, whatever the cache holds."""

import pytest
import yaml
from omegaconf import OmegaConf

from normexp.build import build, compose
from normexp.claims.evidence import side_by_side, training_runs
from normexp.claims.evidence.side_by_side import Wanted
from normexp.claims.evidence.training_runs import Runs
from normexp.claims.spec.claim import Claim

FIXED = [
    "data=digits", "data.train_size=128", "model.depth=1", "model.width=8", "max_steps=2", "batch_size=32",
    "trainer=cpu",
]  # fmt: skip


@pytest.fixture
def runs(tmp_path):
    def make(first: str, second: str, **more) -> Runs:
        arms = {"first": [f"norm={first}"], "second": [f"norm={second}"]}
        asked = {
            "id": "X1",
            "name": "x",
            "sentence": "x",
            "source": "x",
            "covers": (),
            "evidence": "training",
        }
        claim = Claim(**asked, arms=arms, fixed=FIXED, seeds=[8, 16], **more)
        return Runs(claim, tmp_path, report=lambda line: None)

    return make


def modes(found: Runs, seeds: range, level="") -> set[tuple[str, int]]:
    """(mode, seed) of the runs of both arms, trained or from the cache."""
    found.prepare(level, seeds, lambda arm: [None])
    summaries = [found.summary(arm, level, seed, None)[0] for arm in ("first", "second") for seed in seeds]
    return {(summary["execution"]["mode"], summary["config"]["seed"]) for summary in summaries}


def test_both_arms_side_by_side_and_once_only(runs):
    found = runs("none", "layernorm")
    assert modes(found, range(4)) == {("replica", seed) for seed in range(4)}
    assert modes(found, range(5)) == {("replica", seed) for seed in range(5)}  # the fifth by itself
    assert (found.trained, found.reused) == (10, 0)
    again = runs("none", "layernorm")
    assert modes(again, range(5)) == {("replica", seed) for seed in range(5)}
    assert (again.trained, again.reused) == (0, 10)


@pytest.mark.parametrize("second", ["layernorm", "batchnorm_noisy"])  # side by side, and alone
def test_a_run_in_the_cache_says_how_it_was_composed_as_any_run_does(runs, second):
    found = runs("none", second)
    modes(found, range(2))
    folder = found.folder(Wanted("second", "", 1, None))
    saved = folder / ".hydra"
    assert {path.name for path in saved.iterdir()} == {
        "config.yaml",
        "hydra.yaml",
        "overrides.yaml",
        "identity",
    }
    overrides = yaml.safe_load((saved / "overrides.yaml").read_text())
    assert {f"norm={second}", "seed=1", *FIXED} <= set(overrides)
    assert build(*compose(overrides)).digest == (saved / "identity").read_text()
    again = build(OmegaConf.load(saved / "config.yaml"), {"model": "mlp", "data": "digits", "trainer": "cpu"})
    assert again.digest == (saved / "identity").read_text()


def test_arm_or_level_that_cannot_keeps_all_alone(runs):
    assert modes(runs("none", "batchnorm_noisy"), range(2)) == {("alone", seed) for seed in range(2)}
    found = runs("none", "layernorm", factor={"model.width": [8, 8192]})  # 8192: not faster
    assert modes(found, range(2), 8) == {("alone", seed) for seed in range(2)}


def test_arm_in_the_cache_of_another_claim_does_not_mix_in(runs):
    assert modes(runs("layernorm", "batchnorm_noisy"), range(2)) == {("alone", seed) for seed in range(2)}
    assert modes(runs("none", "layernorm"), range(2)) == {("replica", seed) for seed in range(2)}


def test_interrupted_between_the_arms(runs, monkeypatch):
    stopped = runs("none", "layernorm")

    def once(missing, *how):
        if missing[0].arm == "second":
            raise KeyboardInterrupt
        return side_by_side.train_side_by_side(missing, *how)

    with monkeypatch.context() as patched:
        patched.setattr(training_runs, "train_side_by_side", once)
        with pytest.raises(KeyboardInterrupt):
            stopped.prepare("", range(4), lambda arm: [None])
    assert modes(runs("none", "layernorm"), range(4)) == {("replica", seed) for seed in range(4)}
