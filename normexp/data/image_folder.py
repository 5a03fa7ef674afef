"""A folder of the user's own images: train/CLASS/*.png|jpg|jpeg and test/CLASS/*."""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from normexp.data.images import ImageData
from normexp.data.splits import Split

SUFFIXES = {".png", ".jpg", ".jpeg"}
LAYOUT = "expected train/CLASS/*.png|jpg|jpeg and test/CLASS/* in it"


@dataclass(kw_only=True, eq=False)
class ImageFolder(ImageData):
    """Images in one folder a class, sorted by name, resized to image_size x image_size whatever their shape was.

    Other files and names that start with a dot are passed over. The fingerprint covers names and contents.
    """

    path: str | None
    image_size: int = 32
    channels: Literal[1, 3] = 3  # 1: converted to grey

    def read_images(self) -> tuple[Split, Split]:
        if self.path is None:
            raise ValueError("data.path is not set: name a folder with data.path=FOLDER; " + LAYOUT)
        if self.image_size < 1:
            raise ValueError(f"data.image_size={self.image_size}: choose a side of 1 pixel or more")
        folder = Path(self.path).expanduser()
        if not folder.is_dir():
            raise ValueError(f"data.path={self.path}: no such folder; {LAYOUT}")
        train, test = (self._images_by_class(folder / part) for part in ("train", "test"))
        if len(train) == 1:
            raise ValueError(
                f"data.path={self.path}: train has one class, {next(iter(train))}; two are needed"
            )
        if train.keys() != test.keys():
            odd = ", ".join(sorted(train.keys() ^ test.keys()))
            raise ValueError(
                f"data.path={self.path}: {odd} in only one of train and test; both need all classes"
            )
        self.num_classes = len(train)
        digest = hashlib.sha256()
        splits = self._read(train, digest), self._read(test, digest)
        self.fingerprint = digest.hexdigest()
        return splits

    def _images_by_class(self, part: Path) -> dict[str, list[Path]]:
        where = f"data.path={self.path}"
        if not part.is_dir():
            raise ValueError(f"{where}: it has no folder {part.name}; {LAYOUT}")
        folders = sorted(f for f in part.iterdir() if f.is_dir() and not f.name.startswith("."))
        if not folders:
            raise ValueError(f"{where}: {part.name} has no class folders; {LAYOUT}")
        classes = {}
        for folder in folders:
            files = (file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
            classes[folder.name] = sorted(file for file in files if not file.name.startswith("."))
            if not classes[folder.name]:
                raise ValueError(f"{where}: {part.name}/{folder.name} has no image; {LAYOUT}")
        return classes

    def _read(self, classes: dict[str, list[Path]], digest) -> Split:
        images, labels = [], []
        for label, files in enumerate(classes.values()):
            for file in files:
                name = f"{file.parent.parent.name}/{file.parent.name}/{file.name}"
                try:
                    content = file.read_bytes()
                    images.append(self._decode(content))
                except Exception as error:  # PIL's decoders raise nearly everything
                    reason = " ".join(str(error).split())
                    where = f"data.path={self.path}"
                    raise ValueError(
                        f"{where}: cannot read {name} ({reason}); repair or remove it"
                    ) from error
                digest.update(f"{name} {len(content)}\n".encode())
                digest.update(content)
                labels.append(label)
        return Split(torch.stack(images), torch.tensor(labels))

    def _decode(self, content: bytes) -> torch.Tensor:
        from PIL import Image, ImageOps
        from torchvision.transforms.functional import pil_to_tensor

        image = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
        if image.mode.startswith(("I", "F")):  # `convert` would cut them off at 255
            raise ValueError(f"more than 8 bits a pixel, mode {image.mode}")
        image = image.convert("L" if self.channels == 1 else "RGB")
        image = image.resize((self.image_size, self.image_size), Image.Resampling.BILINEAR)
        return pil_to_tensor(image)  # (C, H, W)
