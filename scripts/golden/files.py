"""Small files in the layouts of the standard data sets. Their content is random but always the same."""

import io
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import torchvision.datasets
from PIL import Image

SIDES = {"MNIST": 28, "FashionMNIST": 28, "KMNIST": 28}
CIFARS = {"CIFAR10": ("labels", 10), "CIFAR100": ("fine_labels", 100)}


def write_files(root: Path) -> None:
    """Write IDX files, CIFAR's pickles, a folder of PNGs and a text."""
    random = np.random.default_rng(0)
    for name, side in SIDES.items():
        write_idx(root / name / "raw", random, side)
    for name, (labels, classes) in CIFARS.items():
        write_cifar(root, random, getattr(torchvision.datasets, name), labels, classes)
    for split, count in (("train", 40), ("test", 10)):
        for kind in ("a", "b", "c"):
            folder = root / "images" / split / kind
            folder.mkdir(parents=True)
            for index in range(count):
                Image.fromarray(random.integers(0, 256, (9, 11, 3), dtype=np.uint8)).save(
                    folder / f"{index}.png"
                )
    write_jpegs(root / "jpeg.tar.gz")
    letters = random.choice(list("abcdefgh ,.\n"), 20_000)
    (root / "text.txt").write_text("".join(letters))


def write_jpegs(path: Path) -> None:
    """Write the archive of CIFAR10JPEG: ten classes of photographs of random blocks."""
    random = np.random.default_rng(1)
    with tarfile.open(path, "w:gz") as archive:
        for split, count in (("train", 10), ("test", 3)):
            for kind in "abcdefghij":
                for index in range(count):
                    blocks = random.integers(0, 256, (4, 4, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
                    content = io.BytesIO()
                    Image.fromarray(blocks).save(content, "JPEG", quality=90)
                    entry = tarfile.TarInfo(f"{split}/{kind}/{index}.jpg")
                    entry.size = content.tell()
                    content.seek(0)
                    archive.addfile(entry, content)


def write_idx(raw: Path, random: np.random.Generator, side: int) -> None:
    raw.mkdir(parents=True)
    for part, count in (("train", 100), ("t10k", 30)):
        images = random.integers(0, 256, (count, side, side), dtype=np.uint8)
        labels = random.integers(0, 10, count, dtype=np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape)
            (raw / f"{part}-{name}-ubyte").write_bytes(header + array.tobytes())


def write_cifar(root: Path, random: np.random.Generator, dataset: type, labels: str, classes: int) -> None:
    folder = root / dataset.base_folder
    folder.mkdir(parents=True)
    for file, _ in dataset.train_list + dataset.test_list:
        pixels = random.integers(0, 256, (40, 3072), dtype=np.uint8)
        batch = {"data": pixels, labels: [index % 10 for index in range(40)]}
        (folder / file).write_bytes(pickle.dumps(batch))
    names = {dataset.meta["key"]: [f"class {index}" for index in range(classes)]}
    (folder / dataset.meta["filename"]).write_bytes(pickle.dumps(names))


def accept_files() -> None:
    """Remove torchvision's checksums, which only the real files have."""
    for name in CIFARS:
        dataset = getattr(torchvision.datasets, name)
        dataset.train_list = [[file, None] for file, _ in dataset.train_list]
        dataset.test_list = [[file, None] for file, _ in dataset.test_list]
        dataset.meta = dataset.meta | {"md5": None}
