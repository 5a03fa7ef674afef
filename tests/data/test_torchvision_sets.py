"""torchvision's data sets: read from disk, unpacked, refused in one line; no test asks the network."""

import urllib.error

import numpy as np
import pytest
from made_sets import make_cifar, make_idx
from refusals import refused

from normexp.data import CIFAR10, CIFAR100, KMNIST, MNIST, FashionMNIST

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
    images, labels = (arrays[f"train-{name}"] for name in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    expected = [(image.tobytes(), label) for image, label in zip(images, labels.tolist(), strict=True)]
    rows = [row for name in ("train", "val") for row in zip(*data.splits[name], strict=True)]
    found = [((image * 255).round().byte().numpy().tobytes(), int(label)) for image, label in rows]
    assert sorted(found) == sorted(expected)


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


@pytest.mark.parametrize("made", [(), ("there",), ("there", "MNIST"), ("there", "MNIST", "raw")])
def test_a_download_that_fails_leaves_the_folders_as_they_were(made, tmp_path, no_network):
    if made:
        tmp_path.joinpath(*made).mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with refused("cannot be downloaded"):
        MNIST(root=str(tmp_path / "there"), **OPTIONS).load()
    assert sorted(tmp_path.rglob("*")) == before
