"""The user's own images, and other data sets of encoded images: decoded once, on all cores, into a cache that all runs
share."""

import hashlib
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from normexp.cores import in_bytes, memory
from normexp.data.cache import MappedFile, cached
from normexp.data.decode import CHUNK, Undecodable, decode_all
from normexp.data.image_source import Archive, Folder, Name, Unreadable
from normexp.data.images import PIXELS, ImageData, Images

LAYOUT = "expected train/CLASS/*.png|jpg|jpeg and test/CLASS/* in it"


@dataclass(kw_only=True, eq=False)
class ImageFiles(ImageData):
    """Images of every class sorted by name, resized to image_size x image_size; their proportions are not kept.

    The fingerprint covers the names and contents of the files.
    """

    image_size: ClassVar[int]
    channels: ClassVar[int]  # 3, or 1: converted to gray

    cache: str | None = None  # None: normexp in the user's cache folder

    @abstractmethod
    def source(self) -> Folder | Archive:
        """The folder or archive. Raises ValueError if there is none."""

    def read_images(self) -> Images:
        try:
            source = self.source()
            self._check_room()
            if (counts := source.counts()) is not None:
                self._check(counts)
            options = [str(source.path.resolve()), self.image_size, self.channels]
            name = type(self).__name__.lower()
            folder = cached(self.cache, name, options, source.content(), lambda new: self._build(source, new))
        except (Unreadable, Undecodable) as error:
            name, reason = error.args
            raise ValueError(f"{self._where}: cannot read {name} ({reason}); repair or remove it") from error
        return Images.read(folder)

    @property
    def _where(self) -> str:
        return f"data.path={self.path}"

    def _check_room(self) -> None:
        """Refuse a side so large that memory cannot hold a batch, or the images decoded at one time."""
        image = self.channels * self.image_size**2  # bytes
        needed = max(CHUNK, 4 * self.batch_size) * image
        if needed > memory():
            raise ValueError(
                f"data.image_size={self.image_size}: a batch of {self.batch_size} would take {in_bytes(needed)}, and "
                f"this machine has {in_bytes(memory())}; choose a smaller side"
            )

    def _check(self, counts: dict[str, dict[str, int]]) -> None:
        """Refuse a layout unless training and test have images of the same classes, two or more."""
        for part in ("train", "test"):
            if part not in counts:
                raise ValueError(f"{self._where}: it has no folder {part}; {LAYOUT}")
            if not counts[part]:
                raise ValueError(f"{self._where}: {part} has no class folders; {LAYOUT}")
            for label, count in counts[part].items():
                if count == 0:
                    raise ValueError(f"{self._where}: {part}/{label} has no image; {LAYOUT}")
        train, test = counts["train"].keys(), counts["test"].keys()
        if len(train) == 1:
            raise ValueError(f"{self._where}: train has one class, {min(train)}; two are needed")
        if train != test:
            odd = ", ".join(sorted(train ^ test))
            raise ValueError(f"{self._where}: {odd} in only one of train and test; both need all classes")

    def _build(self, source: Folder | Archive, folder: Path) -> None:
        names: list[Name] = []
        digest = hashlib.sha256()

        def contents() -> Iterator[bytes]:
            for name, content in source.images():
                names.append(name)
                digest.update(f"{name} {len(content)}\n".encode())
                digest.update(content)
                yield content

        pixels = folder / PIXELS
        counts, started, screen = source.counts(), time.monotonic(), Console(stderr=True)
        total = sum(sum(labels.values()) for labels in counts.values()) if counts else None
        columns = (TextColumn("decoding images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
            task = progress.add_task("", total=total)
            try:
                decode_all(
                    contents(), pixels, self.image_size, self.channels, lambda n: progress.advance(task, n)
                )
            except Undecodable as error:
                raise Undecodable(names[error.args[0]], error.args[1]) from error
        if counts is None:
            self._check(_counted(names))
        classes = {label: number for number, label in enumerate(sorted({name.label for name in names}))}
        order = sorted(range(len(names)), key=names.__getitem__)
        file = MappedFile(pixels, [len(names), self.channels, self.image_size, self.image_size])
        images = Images(
            pixels=file.tensor,
            labels=torch.tensor([classes[name.label] for name in names]),
            train=torch.tensor([row for row in order if names[row].part == "train"]),
            test=torch.tensor([row for row in order if names[row].part == "test"]),
            num_classes=len(classes),
            fingerprint=digest.hexdigest(),
            file=file,
        )
        images.write(folder)
        took, size = time.monotonic() - started, pixels.stat().st_size / 2**20
        screen.print(
            f"decoded {len(names):,} images in {took:.1f} s, kept for later runs: {folder.parent} ({size:.0f} MB)",
            highlight=False,
            soft_wrap=True,
        )


def _counted(names: list[Name]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for part, label, _ in names:
        labels = counts.setdefault(part, {})
        labels[label] = labels.get(label, 0) + 1
    return counts


@dataclass(kw_only=True, eq=False)
class ImageFolder(ImageFiles):
    """Images at `path`: a folder in the form train/CLASS/* and test/CLASS/*, or a .tar, .tar.gz or .tar.xz of one.

    Other files and names that start with a dot are ignored.
    """

    path: str | None
    image_size: int = 32
    channels: Literal[1, 3] = 3  # 1: converted to gray

    def source(self) -> Folder | Archive:
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
