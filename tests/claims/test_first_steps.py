"""What nobody has trained yet takes its first steps, so that nothing is in its way on the day somebody does: every cell
of the bank `gpu`, on random images of its sizes."""

import pytest
from made_sets import make_cifar, make_idx

from normexp.claims.spec.bank import load_bank
from normexp.config.run_spec import specs
from normexp.runs import read_summary
from normexp.training.lit_model import LitModel
from normexp.training.train import train

CELLS = load_bank("gpu").cells


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
    words = [*CELLS[name].overrides, f"norm={norm}", f"outputs={tmp_path}", "trainer=cpu", "max_steps=2"]
    words += ["val_every_n_steps=1", "log_every_n_steps=1"]
    words += [] if "python_docs" in name else ["data.val_size=64"]
    (asked,) = specs(words, rates=[CELLS[name].rates[0]])
    train(asked)
    assert read_summary(asked.folder)["steps"] == 2
