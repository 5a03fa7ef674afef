"""Fetch a torchvision data set completely or not at all. One line says why it could not be fetched."""

import gzip
import os
import shutil
import socket
import tempfile
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

MOST_BYTES = 2**31  # of one unpacked file; the largest has 47 MB
TIMEOUT = 30.0  # seconds without an answer; a firewall that drops packets would otherwise hang a run forever


def linked(found: list[Path], root: Path, files: list[str]) -> None:
    """Put `files` below `root`: link to the files that were found, or unpack them."""
    for path, file in zip(found, files, strict=True):
        target = root / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".gz":
            with gzip.open(path) as packed, open(target, "wb") as plain:
                while content := packed.read(2**20):
                    if plain.tell() > MOST_BYTES:  # a few bytes can unpack to a full disk
                        raise OSError(f"{path.name} unpacks to more than {MOST_BYTES // 2**30} GiB")
                    plain.write(content)
        else:
            target.symlink_to(path.resolve())


def download(dataset: type, root: Path, files: list[str]) -> None:
    """Download torchvision's `dataset` so that `files` lie below `root`.

    The files are fetched into a scratch folder and moved when complete. So an interruption leaves no half file, and
    runs that start together do not disturb each other. If the download fails, no empty folder stays, and ValueError is
    raised.
    """
    new_folders = [folder for folder in (root, *root.parents) if not folder.exists()]  # innermost first
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as scratch:
            archive = getattr(dataset, "filename", None)
            if archive and (root / archive).is_file():
                shutil.copy(root / archive, scratch)  # torchvision downloads only if the checksum is wrong
            dataset(scratch, download=True)
            for file in files:
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(scratch) / file, root / file)
    except (RuntimeError, OSError, HTTPException) as error:  # URLError is an OSError
        folder = (root / files[0]).parent.resolve()
        names = ", ".join(Path(file).name for file in files)
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]  # of the last mirror tried
        raise ValueError(
            f"data.root={root}: no {dataset.__name__} in {folder} (expected {names}), and it cannot be downloaded "
            f"({reason}); put the files there, name their folder with data.root=..., "
            "or take data=digits, which needs no download"
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)
        for folder in new_folders:
            with suppress(OSError):  # the folder is not empty: the download succeeded
                folder.rmdir()
