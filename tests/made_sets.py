"""Small data sets with random pixels, in the layouts that torchvision reads."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import torchvision.datasets


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.tobytes()


def make_idx(raw: Path, *, train: int = 100, test: int = 30, pack: bool = False) -> dict[str, np.ndarray]:
    """IDX files in MNIST's layout."""
    random = np.random.default_rng(0)
    raw.mkdir(parents=True)
    arrays = {}
    for part, count in (("train", train), ("t10k", test)):
        for name, array in (
            (f"{part}-images-idx3-ubyte", random.integers(0, 256, (count, 28, 28), dtype=np.uint8)),
            (f"{part}-labels-idx1-ubyte", random.integers(0, 10, count, dtype=np.uint8)),
        ):
            if pack:
                (raw / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
            else:
                (raw / name).write_bytes(idx(array))
            arrays[name] = array
    return arrays


def make_cifar(root: Path, name: str, monkeypatch, *, each: int = 40, test: int = 40) -> dict[str, list]:
    """Pickles in CIFAR's layout, `each` images in a file of the training set; torchvision's checksums are taken out,
    since no other file can have them."""
    dataset = getattr(torchvision.datasets, name)
    random = np.random.default_rng(0)
    folder = root / dataset.base_folder
    folder.mkdir(parents=True)
    fine = "labels" if name == "CIFAR10" else "fine_labels"
    batches = []
    for file, count in [(file, each) for file, _ in dataset.train_list] + [(dataset.test_list[0][0], test)]:
        pixels = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        batch = {"data": pixels, fine: [i % 10 for i in range(count)]}
        (folder / file).write_bytes(pickle.dumps(batch))
        batches.append(batch)
    classes = [f"class {i}" for i in range(10 if name == "CIFAR10" else 100)]
    (folder / dataset.meta["filename"]).write_bytes(pickle.dumps({dataset.meta["key"]: classes}))
    for part in ("train_list", "test_list"):
        monkeypatch.setattr(dataset, part, [[file, None] for file, _ in getattr(dataset, part)])
    monkeypatch.setattr(dataset, "meta", dataset.meta | {"md5": None})
    return {"train": batches[:-1], "test": batches[-1:]}
