"""A run's folder: made after all checks, locked while the run trains, kept once it holds a checkpoint."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from normexp.runs import SUMMARY
from normexp.runs.files import release, remove_unfinished

LOCK, HYDRA = ".lock", ".hydra"  # a run's folder holds them from its first moment
LOOK_SECONDS = 0.2  # a process that only checks the lock holds it for a moment


def saved_identity(folder: Path) -> str | None:
    """The hash that a run folder was made for, or None if it is not a run folder."""
    path = folder / HYDRA / "identity"
    return path.read_text(errors="replace").strip() or None if path.exists() else None


def check_folder(folder: Path, digest: str) -> None:
    """Refuse a folder that holds another run or other files."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"run_dir={folder}: is a file; name a folder")
    found = saved_identity(folder)
    if found is None and {entry.name for entry in folder.iterdir()} - {LOCK, HYDRA}:
        raise ValueError(
            f"run_dir={folder}: holds files that are no run of normexp; choose an empty or a new folder"
        )
    if found is not None and found != digest:
        raise ValueError(
            f"run_dir={folder}: holds another run (hash {found[:8]}, this one is {digest[:8]}); choose another folder"
        )


class Busy(ValueError):
    """Another process is training this run."""


def in_use(path: Path) -> bool:
    """Whether a process trains the run of this folder now. The lock of one that was killed is removed."""
    if not (path / LOCK).exists():
        return False
    lock = FileLock(path / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:  # the folder was just removed, or is not writable
        return False
    release(lock)
    return False


class RunFolder:
    """Context around a run's folder.

    Entering makes the folder, takes its lock and writes `.hydra/` with the run's identity, or does nothing at all. If
    an error ends the block and there is no checkpoint yet, the folder is removed if this launch made it, and so are the
    parents that it made.

    Args:
        files: for `.hydra/`.
        asked: the argument that led here, e.g. `outputs=mine`, for messages; `run_dir=<path>` by default.

    Raises ValueError if the folder holds something else, cannot be written, or another process trains in it (Busy).
    """

    def __init__(self, path: Path, digest: str, files: dict[str, str], *, asked: str | None = None):
        self.path, self.digest, self.files = path, digest, files
        self.asked = asked or f"run_dir={path}"
        self._lock = FileLock(path / LOCK)
        with self._one_line():
            check_folder(path, digest)

    @property
    def last_checkpoint(self) -> Path:
        return self.path / "checkpoints" / "last.ckpt"

    def __enter__(self) -> "RunFolder":
        with self._one_line():
            self._made = [p for p in (self.path, *self.path.parents) if not p.exists()]
            try:
                self._acquire()
                # Check only with the lock: before, another process may have finished this run.
                self._is_new = saved_identity(self.path) is None
                if self._is_new:  # identity last: a folder without it is one that a killed process left
                    (self.path / HYDRA).mkdir(exist_ok=True)
                    for name, text in {**self.files, "identity": self.digest}.items():
                        (self.path / HYDRA / name).write_text(text)
                for folder in (self.path, self.last_checkpoint.parent):
                    remove_unfinished(folder)
            except BaseException:
                self._leave(whole=self.path not in self._made)
                raise
        return self

    def _acquire(self) -> None:
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # the process that held the lock removed the folder
                self._lock.acquire(timeout=LOOK_SECONDS)
                if (self.path / LOCK).exists():
                    return
                self._lock.release()

    def _leave(self, *, whole: bool) -> None:
        """Release the lock, and remove what this launch made unless it stays whole."""
        if not whole and self._lock.is_locked:
            shutil.rmtree(self.path, ignore_errors=True)
        release(self._lock)
        with contextlib.suppress(OSError):  # a parent that others use now stays
            for folder in () if whole else self._made:
                if os.path.exists(folder):  # False for a name that is too long
                    folder.rmdir()

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except Timeout:
            raise Busy(f"run_dir={self.path}: another process is training this run; wait for it") from None
        except OSError as error:
            why = error.strerror or error
            raise ValueError(f"{self.asked}: cannot be written ({why}); choose another folder") from None

    def __exit__(self, kind: type[BaseException] | None, error, traceback) -> None:
        kept = self.last_checkpoint.exists() or (self.path / SUMMARY).exists()
        self._leave(whole=kind is None or not self._is_new or kept)
