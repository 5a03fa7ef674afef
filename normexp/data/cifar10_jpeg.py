"""CIFAR-10 re-encoded as JPEG, in one archive."""

from dataclasses import dataclass
from pathlib import Path

from normexp.data.image_files import ImageFiles
from normexp.data.image_source import Archive, ImageSource
from normexp.data.places import standard_places

ARCHIVE = "cifar10_jpeg.tar.gz"


@dataclass(kw_only=True, eq=False)
class CIFAR10JPEG(ImageFiles):
    """The 60,000 photographs of CIFAR-10 (Krizhevsky 2009), 32x32 in color, each a JPEG: {train,test}/CLASS/*.jpg.

    Classes are numbered by name, as in CIFAR-10. JPEG loses detail, so pixels and accuracies differ a little from those
    of CIFAR-10.
    """

    image_size = 32
    channels = 3

    path: str | None = None  # of the archive; None: search the places of standard data sets

    def source(self) -> ImageSource:
        if self.path is not None:
            path = Path(self.path).expanduser()
            if not path.is_file():
                raise ValueError(f"data.path={self.path}: no such file; name {ARCHIVE} with data.path=FILE")
            return Archive(path)
        places = standard_places()
        for place in places:
            if (place / ARCHIVE).is_file():
                return Archive(place / ARCHIVE)
        raise ValueError(
            f"data.path is not set, and {ARCHIVE} is in none of {', '.join(map(str, places))}; "
            "name it with data.path=FILE, or take data=cifar10"
        )
