"""What nobody has trained yet takes its first steps, so that nothing is in its way on the day somebody does: every cell
of the bank `gpu` on random images of its sizes, claims about language models, and claims on data that change."""

import math

import pytest
from committed import CLAIMS
from made_sets import make_cifar, make_idx

from normexp.claims.evidence.metric import check_metric, read_logged
from normexp.claims.spec.bank import load_bank
from normexp.config.run_spec import specs
from normexp.runs import read_summary
from normexp.training.lit_model import LitModel
from normexp.training.train import train

CELLS = load_bank("gpu").cells
TWO = ("max_steps=2", "val_every_n_steps=1", "log_every_n_steps=1", "trainer=cpu")
LANGUAGE = {
    name: claim for name, claim in CLAIMS.items() if claim.drawn_from and claim.drawn_from.name == "texts"
}
TEXT = (
    *("data=python_docs", "data.train_size=2000", "data.context_length=16"),
    *("model.width=16", "model.depth=2"),
)
CHANGED = ("P29", "P30", "P30a", "P30b", "P31", "P31a")  # tasks within a run, noisy images, adversarial noise
IMAGES = ("data=digits", "batch_size=32", "recipe=plain", "lr=0.05")
MLP = ("model=mlp", "model.width=8", "model.depth=1")
CNN = ("model=cnn", "model.width=4", "model.depth=[1,1]")


def two_steps(words, claim=None, arm="", rates=None) -> dict:
    """The summary of a run of two steps, which has the number of a claim's arm."""
    (asked,) = specs([*words, *TWO], rates=rates)
    if claim:
        check_metric(claim, claim.metric_of(arm), asked.config)
    train(asked)
    summary = read_summary(asked.folder)
    assert summary["steps"] == 2
    return summary | {"folder": asked.folder}


def some_slow(names, *fast):
    return [pytest.param(name, marks=[] if name in fast else pytest.mark.slow) for name in names]


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
@pytest.mark.filterwarnings("ignore:gpt with BatchNorm")
@pytest.mark.parametrize("norm", ["batchnorm", "layernorm"])
@pytest.mark.parametrize("name", CELLS)
def test_each_cell_trains_two_steps(name, norm, data_root, small_evaluation, tmp_path):
    images = [] if "python_docs" in name else ["data.val_size=64"]
    words = [*CELLS[name].overrides, *images, f"norm={norm}", f"outputs={tmp_path}"]
    two_steps(words, rates=[CELLS[name].rates[0]])


def test_each_claim_about_language_asks_24_settings_for_at_most_three_core_hours():
    assert len(LANGUAGE) == 4
    for claim in LANGUAGE.values():
        assert len(claim.cells) == claim.first == 24
        rates = 3 if claim.rate == "own" else 1  # round the best rate of its pilot
        assert claim.values * rates * claim.seconds <= 3 * 3600, claim.id


@pytest.mark.integration
@pytest.mark.parametrize("name", some_slow(LANGUAGE, "P27"))
@pytest.mark.filterwarnings("ignore")
def test_every_arm_of_a_language_model_takes_its_first_steps(name, tmp_path):
    claim = LANGUAGE[name]
    cell = next(iter(claim.cells.values()))
    data = [word for word in cell.overrides if not word.startswith("data")]
    factor = [f"{key}={levels[0]}" for key, levels in claim.factor.items() if not key.startswith("data.")]
    for arm, own in claim.arms.items():
        two_steps(
            [*data, *TEXT, *claim.fixed, *own, *factor, "batch_size=4", f"outputs={tmp_path / arm}"],
            rates=[0.003],
        )


@pytest.mark.integration
@pytest.mark.parametrize("name", some_slow(CHANGED, "P30a", "P30b", "P31a"))
def test_every_arm_on_changed_data_has_its_number(name, tmp_path):
    claim, model = CLAIMS[name], MLP if name == "P29" else CNN
    for arm, own in claim.arms.items():
        metric = claim.metric_of(arm)
        words = [*IMAGES, *model, *claim.fixed, *own, "data.task_batches=1", f"outputs={tmp_path / arm}"]
        summary = two_steps(words, claim, arm)
        if metric.startswith("logged/"):
            value = read_logged(metric, summary, summary["folder"])
        else:
            value = 1 - summary["metrics"]["test/accuracy"]
        assert math.isfinite(value)
        assert -1 <= value <= 1
