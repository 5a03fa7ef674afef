"""Folders of a user's own images, and what is read of them."""

from collections.abc import Callable
from pathlib import Path

from PIL import Image

from normexp.data import ImageFolder


def make_folder(
    root: Path, labels: tuple[str, ...], counts: dict[str, int], image: Callable[[int, int], Image.Image], ending="png"
) -> Path:  # fmt: skip
    """So many images of each label in each part; `image` gets the number of the label and that of the image."""
    for part, count in counts.items():
        for number, label in enumerate(labels):
            (root / part / label).mkdir(parents=True)
            for place in range(count):
                image(number, place).save(root / part / label / f"{place:02}.{ending}")
    return root


def image_folder(path: Path | str | None, **options) -> ImageFolder:
    defaults = {"batch_size": 4, "eval_batch_size": 8, "image_size": 6, "normalize": False}
    data = ImageFolder(**defaults | {"path": path and str(path)} | options)
    data.load()
    return data
