"""A run's folder: made when everything was checked, locked while it trains, removed if an error ends it."""

import contextlib
import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from normexp.config.identity import HYDRA, HYDRA_BEING_WRITTEN, LOCK, check_folder, saved_identity
from normexp.runs import read_summary

Errors = tuple[type[BaseException], ...]


class RunFolder:
    """Context around a run's folder.

    Entering makes the folder, takes its lock and writes `.hydra/` with the run's identity, or nothing at all. Leaving
    by an error removes a folder that this launch made, and the parents it made for it, unless the run in it is
    finished.

    Args:
        files: for `.hydra/`.
        asked: the argument that led here, e.g. `outputs=mine`, for messages; `run_dir=<path>` by default.
        keep_on: errors that keep a new folder for resuming.
        keep_checkpoint_on: errors that keep it if there is a checkpoint to resume from.

    Raises ValueError if the folder holds something else, cannot be written, or another process trains in it.
    """

    def __init__(
        self,
        path: Path,
        digest: str,
        files: dict[str, str],
        *,
        asked: str | None = None,
        keep_on: Errors = (),
        keep_checkpoint_on: Errors = (),
    ):
        self.path, self.digest, self.files = path, digest, files
        self.asked = asked or f"run_dir={path}"
        self.keep_on, self.keep_checkpoint_on = keep_on, keep_checkpoint_on
        with self._one_line():
            check_folder(path, digest)

    @property
    def last_checkpoint(self) -> Path:
        return self.path / "checkpoints" / "last.ckpt"

    def finished(self) -> bool:
        return read_summary(self.path) is not None

    def __enter__(self) -> "RunFolder":
        self._lock = FileLock(self.path / LOCK)
        with self._one_line():
            self._made = [p for p in (self.path, *self.path.parents) if not p.exists()]
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock.acquire(timeout=0)
                # With the lock: until then another process may have made this run.
                self._is_new = saved_identity(self.path) is None
                if self._is_new:
                    self._write_hydra()
            except Timeout:
                raise ValueError(
                    f"run_dir={self.path}: another process is training this run; wait for it"
                ) from None
            except BaseException:
                self._undo()
                raise
        return self

    def _write_hydra(self) -> None:
        """All files or none: a folder that a killed process left behind must not look like another program's."""
        new = self.path / HYDRA_BEING_WRITTEN
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        for name, text in {**self.files, "identity": self.digest}.items():
            (new / name).write_text(text)
        shutil.rmtree(self.path / HYDRA, ignore_errors=True)  # an incomplete one
        new.rename(self.path / HYDRA)

    def _undo(self) -> None:
        shutil.rmtree(self.path / HYDRA_BEING_WRITTEN, ignore_errors=True)
        self._unlock()
        with contextlib.suppress(OSError):  # a parent that others use by now stays
            for place in self._made:
                if place.exists():
                    place.rmdir()

    def _unlock(self) -> None:
        self._lock.release()
        with contextlib.suppress(OSError):
            (self.path / LOCK).unlink()

    @contextlib.contextmanager
    def _one_line(self):
        try:
            yield
        except OSError as error:
            why = error.strerror or error
            raise ValueError(f"{self.asked}: cannot be written ({why}); choose another folder") from None

    def __exit__(self, kind: type[BaseException] | None, error, traceback) -> None:
        self._unlock()
        if kind is None or not self._is_new or issubclass(kind, self.keep_on) or self.finished():
            return
        if issubclass(kind, self.keep_checkpoint_on) and self.last_checkpoint.exists():
            return
        shutil.rmtree(self.path, ignore_errors=True)
        for parent in self._made[1:]:
            if not any(parent.iterdir()):
                parent.rmdir()
