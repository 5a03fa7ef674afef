"""A claim's runs share a process where that is faster, both arms of a comparison or neither."""

import pytest

from normexp.claims.claim import Claim
from normexp.evidence.training import Runs

FIXED = [
    "data=digits", "data.train_size=128", "model.depth=1", "model.width=8", "max_steps=2", "batch_size=32",
    "trainer=cpu",
]  # fmt: skip


@pytest.fixture
def runs(tmp_path):
    def make(first: str, second: str) -> Runs:
        arms = {"first": [f"norm={first}"], "second": [f"norm={second}"]}
        claim = Claim(
            id="X1",
            name="x",
            sentence="x",
            source="x",
            covers=(),
            evidence="training",
            arms=arms,
            fixed=FIXED,
        )
        return Runs(claim, tmp_path, report=lambda line: None)

    return make


def modes(found: Runs, seeds: range) -> set[tuple[str, int]]:
    """(mode, seed) of the runs of both arms, trained or from the cache."""
    found.prepare("", seeds, lambda arm: [None])
    summaries = [found.summary(arm, "", seed, None)[0] for arm in ("first", "second") for seed in seeds]
    return {(summary["execution"]["mode"], summary["config"]["seed"]) for summary in summaries}


def test_both_arms_side_by_side_and_once_only(runs):
    found = runs("none", "layernorm")
    assert modes(found, range(4)) == {("replica", seed) for seed in range(4)}
    assert (found.trained, found.reused) == (8, 0)
    again = runs("none", "layernorm")
    assert modes(again, range(4)) == {("replica", seed) for seed in range(4)}
    assert (again.trained, again.reused) == (0, 8)


def test_arm_that_cannot_keeps_the_other_alone(runs):
    assert modes(runs("none", "batchnorm_noisy"), range(4)) == {("alone", seed) for seed in range(4)}


def test_arm_that_was_computed_alone_keeps_the_other_alone(runs):
    first = runs("none", "layernorm")
    for seed in range(4):
        first.summary("first", "", seed, None)
    assert modes(first, range(4)) == {("alone", seed) for seed in range(4)}
