"""A folder or an archive of the user's own images: train/CLASS/*.png|jpg|jpeg and test/CLASS/*."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from normexp.data.image_files import LAYOUT, ImageFiles
from normexp.data.image_source import Archive, Folder, ImageSource


@dataclass(kw_only=True, eq=False)
class ImageFolder(ImageFiles):
    """Images at `path`: a folder in the form train/CLASS/* and test/CLASS/*, or a .tar, .tar.gz or .tar.xz of one.

    Other files and names that start with a dot are ignored.
    """

    path: str | None
    image_size: int = 32
    channels: Literal[1, 3] = 3  # 1: converted to gray

    def source(self) -> ImageSource:
        if self.path is None:
            raise ValueError("data.path is not set: name a folder with data.path=FOLDER; " + LAYOUT)
        if self.image_size < 1:
            raise ValueError(f"data.image_size={self.image_size}: choose a side of 1 pixel or more")
        path = Path(self.path).expanduser()
        if path.is_dir():
            return Folder(path)
        if path.is_file():
            return Archive(path)
        raise ValueError(f"data.path={self.path}: no such folder; {LAYOUT}")
