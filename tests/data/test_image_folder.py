"""A user's own images: layout, labels, sizes, fingerprint, and what is refused."""

import io
import shutil

import numpy as np
import pytest
from made_folders import image_folder, make_folder
from PIL import Image
from refusals import refused

from normexp.data.image_files import decode


@pytest.fixture
def folder(tmp_path):
    """Three classes told apart by their red, green or blue; 10 training and 2 test images each."""

    def image(channel, place):
        pixels = np.zeros((12, 9, 3), dtype=np.uint8)
        pixels[..., channel] = 200 + place
        return Image.fromarray(pixels)

    return make_folder(tmp_path, ("apple", "grass", "sky"), {"train": 10, "test": 2}, image)


def test_images_are_resized_labeled_by_folder_and_split(folder):
    data = image_folder(folder)
    assert data.input_shape == (3, 6, 6)
    assert data.num_classes == 3
    assert {name: len(split.y) for name, split in data.splits.items()} == {"train": 27, "val": 3, "test": 6}
    for split in data.splits.values():
        assert split.x.amax(dim=(2, 3)).argmax(dim=1).tolist() == split.y.tolist()
    assert data.splits["val"].y.sort().values.tolist() == [0, 1, 2]
    assert data.splits["test"].x[0, 0].unique().item() == pytest.approx(200 / 255)


def test_gray_images_and_jpeg(folder):
    path = folder / "train" / "sky" / "photo.JPEG"
    Image.fromarray(np.full((20, 20, 3), 128, dtype=np.uint8)).save(path)
    data = image_folder(folder, channels=1)
    assert data.input_shape == (1, 6, 6)
    assert len(data.splits["train"].y) + len(data.splits["val"].y) == 31


def test_hidden_and_other_files_are_passed_over(folder):
    plain = image_folder(folder)
    (folder / "train" / ".cache").mkdir()
    (folder / "train" / "sky" / "notes.txt").write_text("not an image")
    (folder / "train" / "sky" / "._0.png").write_bytes(b"left by a file system")
    assert image_folder(folder).fingerprint == plain.fingerprint


def test_fingerprint_follows_names_and_contents(folder):
    first = image_folder(folder).fingerprint
    assert len(first) == 64
    assert image_folder(folder, seed=3, image_size=8).fingerprint == first
    image = folder / "train" / "sky" / "00.png"
    image.rename(folder / "train" / "sky" / "renamed.png")
    renamed = image_folder(folder).fingerprint
    Image.new("RGB", (5, 5)).save(folder / "train" / "sky" / "renamed.png")
    assert len({first, renamed, image_folder(folder).fingerprint}) == 3


def sixteen_bits() -> bytes:
    Image.fromarray(np.full((5, 5), 40_000, dtype=np.uint16)).save(file := io.BytesIO(), "PNG")
    return file.getvalue()


ONLY_ONE = "sky in only one of train and test"
UNUSABLE = [  # what goes, what comes, options, what is said
    ([], {}, {"path": None}, "data.path is not set: name a folder with data.path=FOLDER"),
    ([], {}, {"path": "/nowhere"}, "data.path=/nowhere: no such folder; expected train/CLASS/"),
    (["test"], {}, {}, "it has no image for test; expected train/CLASS/"),
    (["train/*"], {}, {}, "it has no image for train; expected train/CLASS/"),
    (["train/sky/*"], {}, {}, ONLY_ONE),
    (["test/sky"], {}, {}, ONLY_ONE),
    (["*/apple", "*/sky"], {}, {}, "train has one class, grass; two are needed"),
    ([], {"test/sky/empty.jpg": b""}, {}, "cannot read test/sky/empty.jpg .* repair or remove it"),
    ([], {"train/sky/deep.png": sixteen_bits()}, {}, "cannot read train/sky/deep.png .more than 8 bits a pixel"),
]  # fmt: skip


@pytest.mark.parametrize(("gone", "come", "options", "message"), UNUSABLE, ids=lambda value: str(value)[:40])
def test_a_folder_that_cannot_be_used_is_refused_in_one_line(folder, gone, come, options, message):
    for path in [path for pattern in gone for path in folder.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, content in come.items():
        (folder / name).write_bytes(content)
    with refused(message):
        image_folder(**{"path": folder} | options)


def test_a_photo_is_turned_upright_as_its_exif_says(folder):
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    pixels[:4] = 255  # the upper half is white
    exif = Image.Exif()
    exif[0x0112] = 3  # turned by 180 degrees
    content = folder / "train" / "sky" / "turned.jpg"
    Image.fromarray(pixels).save(content, exif=exif, quality=100)
    upright = decode(content.read_bytes(), 6, 3)
    assert upright.dtype == np.uint8
    assert upright[:, 0].max() < 20
    assert upright[:, -1].min() > 235
