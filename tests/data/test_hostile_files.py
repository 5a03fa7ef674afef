"""Harmful or damaged data files: each is refused at once, with one line."""

import gzip
import io
import os
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from made_folders import image_folder, make_folder
from made_sets import idx, make_idx
from PIL import Image
from refusals import refused

from normexp.data import MNIST, ImageFolder

OPTIONS = {"batch_size": 2, "eval_batch_size": 8}


def png(width: int, height: int) -> bytes:
    """A black image of one bit a pixel: 8 kB for a hundred million pixels."""
    rows = zlib.compress(bytes(height * (1 + (width + 7) // 8)), 9)
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    packed = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def encoded(form: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, form)
    return file.getvalue()


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(/tmp/x) (w) file closefile\n%%EOF\n"
IMAGES = {  # large ones are made where they are needed
    "EPS, which Ghostscript runs": (EPS, "neither a PNG nor a JPEG"),
    "TIFF": (encoded("TIFF"), "neither a PNG nor a JPEG"),
    "nothing": (b"", "neither a PNG nor a JPEG"),
    "PNG that ends": (encoded("PNG")[:45], "."),
    "JPEG that ends": (encoded("JPEG")[:300], "."),
    "PNG of 1.6 gigapixels": (lambda: png(40_000, 40_000), "decompression bomb"),
    "PNG of 100 megapixels": (lambda: png(10_000, 10_000), "decompression bomb"),
    "PNG of 67.1 megapixels": (lambda: png(8193, 8192), r"8193x8192 pixels; at most 67,108,864 are decoded"),
    "PNG of no pixels": (lambda: png(0, 5), "."),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path) -> Path:
    return make_folder(
        tmp_path / "images", ("a", "b"), {"train": 4, "test": 4}, lambda *_: Image.new("RGB", (8, 8))
    )


def load(path: Path) -> ImageFolder:
    return image_folder(path, cache=str(path.parent / "cache"))


def unreadable(path: Path, message: str) -> str:
    with refused(message) as caught:
        load(path)
    assert str(caught.value).startswith(f"data.path={path}: cannot read ")
    return str(caught.value)


@pytest.mark.integration
@pytest.mark.parametrize("name", IMAGES)
def test_only_whole_pngs_and_jpegs_of_sane_size_are_decoded(folder, name):
    content, message = IMAGES[name]
    (folder / "train" / "a" / "bad.png").write_bytes(content() if callable(content) else content)
    said = unreadable(folder, message)
    assert "train/a/bad.png" in said
    assert said.endswith("repair or remove it")


def test_what_is_no_file_is_not_opened(folder):
    os.mkfifo(folder / "train" / "a" / "pipe.png")
    (folder / "train" / "a" / "terminal.png").symlink_to("/dev/tty")
    (folder / "train" / "a" / "nowhere.png").symlink_to("nowhere")
    assert len(load(folder).splits["train"]) == 7


def test_bomb_in_an_archive_is_refused(tmp_path):
    content = png(10_000, 10_000)
    member = tarfile.TarInfo("train/a/x.png")
    member.size = len(content)
    with tarfile.open(tmp_path / "a.tar", "w") as file:
        file.addfile(member, io.BytesIO(content))
    unreadable(tmp_path / "a.tar", "decompression bomb")


LABELS, TEST_LABELS, PIXELS = "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte", "train-images-idx3-ubyte"
ONE_WRONG = np.r_[np.zeros(99, np.uint8), np.uint8(255)]
IDX = {
    "label too large": (LABELS, idx(np.full(100, 10, np.uint8)), "labels are 0..9"),
    "one label of many": (LABELS, idx(ONE_WRONG), "labels are 0..9"),
    "label of the test set": (TEST_LABELS, idx(np.full(30, 11, np.uint8)), "labels are 0..9"),
    "too few labels": (LABELS, idx(np.zeros(99, np.uint8)), "as many labels"),
    "too many labels": (TEST_LABELS, idx(np.zeros(31, np.uint8)), "as many labels"),
    "no labels": (LABELS, idx(np.zeros(0, np.uint8)), "."),
    "images that claim a terabyte": (PIXELS, struct.pack(">4I", 0x0803, 2**31, 28, 28) + bytes(100), "."),
    "a header alone": (PIXELS, b"\x00\x00\x08\x03", "."),
    "nothing": (PIXELS, b"", "."),
    "a pickle": (LABELS, b"\x80\x04cposix\nsystem\n(X\x04\x00\x00\x00truetR.", "."),
}


@pytest.fixture
def mnist(tmp_path) -> Path:
    make_idx(raw := tmp_path / "MNIST" / "raw")
    return raw


def load_mnist(raw: Path) -> MNIST:
    data = MNIST(root=str(raw.parents[1]), val_size=20, **OPTIONS)
    data.load()
    return data


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("name", IDX)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_damaged_labels_and_images_are_found_before_training(mnist, name, packed):
    file, content, message = IDX[name]
    if packed:
        (mnist / file).unlink()
        (mnist / f"{file}.gz").write_bytes(gzip.compress(content))
    else:
        (mnist / file).write_bytes(content)
    with refused(rf"data\.root=.*: the files in .* are damaged \({message}"):
        load_mnist(mnist)
