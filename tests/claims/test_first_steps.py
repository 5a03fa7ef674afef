"""Every arm of every larger protocol trains its first two steps and is measured, so that nothing is in its way on the
day there is a GPU. The images are random, of the sizes that the protocol names."""

import dataclasses
import math

import pytest
from committed import TRAINED, claims
from made_sets import make_cifar, make_idx
from normexp.claims.evidence.train_call import train

from normexp.claims.evidence.metric import read_metric
from normexp.claims.evidence.training_runs import Runs
from normexp.claims.evidence.wanted import Wanted
from normexp.lit_model import LitModel

SHORT = ("max_steps=2", "trainer=cpu", "log_every_n_steps=1")


@pytest.fixture(scope="module")
def data_root(tmp_path_factory):
    root = tmp_path_factory.mktemp("sets")
    with pytest.MonkeyPatch.context() as patch:
        make_idx(root / "MNIST" / "raw", train=10_200, test=64)
        make_cifar(root, "CIFAR10", patch, each=2_100)
        make_cifar(root, "CIFAR100", patch, each=2_100)
        patch.setenv("NORMEXP_DATA", str(root))
        yield root


@pytest.fixture
def small_evaluation(monkeypatch):
    """Eight samples of each batch are evaluated: the larger networks take minutes for all."""
    whole = LitModel.validation_step

    def part(self, batch, batch_idx):
        whole(self, tuple(tensor[:8] for tensor in batch), batch_idx)

    monkeypatch.setattr(LitModel, "validation_step", part)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore:gpt with")  # P11 and P20 ask about norms over tokens
@pytest.mark.parametrize("budget", ["full", "paper"])
@pytest.mark.parametrize("name", TRAINED)
def test_every_arm_of_a_larger_protocol_trains_two_steps(name, budget, data_root, small_evaluation, tmp_path):
    claim = claims(budget)[name]
    images = any(override in ("data=mnist", "data=cifar10", "data=cifar100") for override in claim.fixed)
    short = (*claim.fixed, *SHORT, *(["data.val_size=64"] if images else []))
    runs = Runs(dataclasses.replace(claim, fixed=short), tmp_path)
    seeds = range(2 if claim.replicas else 1)
    rate = claim.tune["lr"][0] if claim.tune else None
    for arm in claim.arms:
        together = [Wanted(arm, claim.levels[0], seed, rate) for seed in seeds]
        train(runs.call(together))
        summary, folder = runs.summary(together[0])
        assert summary["steps"] == 2
        value, _ = read_metric(claim.metric_of(arm), summary, folder)
        assert math.isnan(value) == (summary["status"] == "diverged")  # a large rate, on noise
