"""torchvision's data sets: read from disk, unpacked, refused in one line; no test asks the network."""

import urllib.error
from pathlib import Path

import numpy as np
import pytest
from made_sets import make_cifar, make_idx
from refusals import refused

from normexp.data import CIFAR10, CIFAR100, KMNIST, MNIST, FashionMNIST

REAL = Path(__file__).parents[3] / "shared" / "data" / "mnist"
OPTIONS = {"batch_size": 8, "eval_batch_size": 64, "val_size": 20, "normalize": False}


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


@pytest.mark.parametrize("pack", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("target", [MNIST, FashionMNIST, KMNIST])
def test_mnist_family_reads_idx_files_plain_or_packed(target, pack, tmp_path, no_network):
    arrays = make_idx(tmp_path / target.__name__ / "raw", pack=pack)
    data = target(root=str(tmp_path), **OPTIONS)
    data.load()
    assert data.input_shape == (1, 28, 28)
    assert data.num_classes == 10
    assert {name: len(split.y) for name, split in data.splits.items()} == {"train": 80, "val": 20, "test": 30}
    test = data.splits["test"]
    np.testing.assert_allclose(test.x[:, 0], arrays["t10k-images-idx3-ubyte"] / 255, atol=1e-7)
    assert test.y.tolist() == arrays["t10k-labels-idx1-ubyte"].tolist()
    label_of = {
        image.tobytes(): label
        for image, label in zip(
            arrays["train-images-idx3-ubyte"], arrays["train-labels-idx1-ubyte"], strict=True
        )
    }
    seen = 0
    for name in ("train", "val"):
        for image, label in zip(data.splits[name].x, data.splits[name].y, strict=True):
            assert label_of[(image[0] * 255).round().byte().numpy().tobytes()] == label
            seen += 1
    assert seen == len(label_of) == 100


@pytest.mark.parametrize(("target", "classes"), [(CIFAR10, 10), (CIFAR100, 100)])
def test_cifar_reads_its_pickles_channels_first(target, classes, tmp_path, monkeypatch, no_network):
    batches = make_cifar(tmp_path, target.__name__, monkeypatch)
    data = target(root=str(tmp_path), **OPTIONS)
    data.load()
    assert data.input_shape == (3, 32, 32)
    assert data.num_classes == classes
    assert len(data.splits["train"].y) == 40 * len(batches["train"]) - 20
    test = data.splits["test"]
    expected = batches["test"][0]["data"].reshape(40, 3, 32, 32) / 255
    np.testing.assert_allclose(test.x, expected, atol=1e-7)
    assert all(split.x.is_contiguous() for split in data.splits.values())


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the real MNIST is not at {REAL}")
def test_real_mnist_has_its_standard_sizes_and_moments(tmp_path, no_network):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for archive in REAL.glob("*.gz"):
        (raw / archive.name).symlink_to(archive)
    data = MNIST(root=str(tmp_path), batch_size=64, eval_batch_size=2048, val_size=5000)
    data.load()
    assert {name: len(split.y) for name, split in data.splits.items()} == {
        "train": 55_000,
        "val": 5000,
        "test": 10_000,
    }
    assert data.fingerprint == ""
    assert data.mean.item() == pytest.approx(0.1307, abs=5e-4)  # the values in every tutorial, of all 60,000
    assert data.std.item() == pytest.approx(0.3081, abs=5e-4)
    assert data.splits["test"].y[:5].tolist() == [7, 2, 1, 0, 4]
    counts = data.splits["val"].y.bincount() / 5000 - data.splits["train"].y.bincount() / 55_000
    assert counts.abs().max() < 3e-4


@pytest.mark.parametrize("made", [(), ("there",), ("there", "MNIST"), ("there", "MNIST", "raw")])
def test_a_download_that_fails_leaves_the_folders_as_they_were(made, tmp_path, no_network):
    if made:
        tmp_path.joinpath(*made).mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with refused("cannot be downloaded"):
        MNIST(root=str(tmp_path / "there"), **OPTIONS).load()
    assert sorted(tmp_path.rglob("*")) == before
