"""The data sets beside the repository: found without being named, with a small training split and all test examples."""

from pathlib import Path

import pytest
import torch

from normexp.data import MNIST, TextFile

SHARED = Path(__file__).parents[3] / "shared" / "data"
SMALL = {"batch_size": 64, "eval_batch_size": 2048, "train_size": 5000, "val_size": 5000}


def needs(name: str):
    return pytest.mark.skipif(not (SHARED / name).exists(), reason=f"no {SHARED / name}")


@pytest.fixture(autouse=True)
def nothing_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("NORMEXP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


@needs("mnist")
def test_mnist_is_found_and_cut_small():
    data = MNIST(**SMALL)
    data.load()
    assert (data.input_shape, data.fingerprint) == ((1, 28, 28), "")
    for split, size in (("train", 5000), ("val", 5000), ("test", 10_000)):
        counts = data.splits[split].y.bincount(minlength=10)
        assert counts.sum() == size
        assert counts.min() > 0.08 * size
    assert data.mean.item() == pytest.approx(0.1307, abs=0.002)  # the values in every tutorial, of all 60,000
    assert data.std.item() == pytest.approx(0.3081, abs=0.002)
    assert data.splits["test"].y[:5].tolist() == [7, 2, 1, 0, 4]


@needs("tinyshakespeare.txt.gz")
def test_tinyshakespeare_is_a_byte_a_character():
    path = SHARED / "tinyshakespeare.txt.gz"
    data = TextFile(path=str(path), batch_size=64, eval_batch_size=256, context_length=64)
    data.load()
    assert data.num_classes == 65
    assert sum(len(split.x) + 1 for split in data.splits.values()) == 1_115_394
    assert data.splits["train"].x.dtype == torch.uint8
    assert data.decode(data.splits["train"].x[:14]) == "First Citizen:"
