"""A run's folder: made when everything was checked, locked while it trains, removed if an error ends it."""

import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from normexp.identity import check_folder
from normexp.runs import read_summary

LOCK = ".lock"


class RunFolder:
    """Context around a run's folder.

    Entering makes the folder, takes its lock and writes `.hydra/` with the run's identity. Leaving by an error
    removes a folder that this launch made, and the parents it made for it, unless the run in it is finished; leaving
    by `keep_on` (an interruption) keeps it for resuming.

    Raises ValueError if the folder holds something else, or another process trains in it.
    """

    def __init__(
        self, path: Path, digest: str, files: dict[str, str], keep_on: tuple[type[BaseException], ...] = ()
    ):
        self.path = path
        self.digest = digest
        self.files = files
        self.keep_on = keep_on
        check_folder(path, digest)

    @property
    def last_checkpoint(self) -> Path:
        return self.path / "checkpoints" / "last.ckpt"

    def finished(self) -> bool:
        return read_summary(self.path) is not None

    def __enter__(self) -> "RunFolder":
        self._is_new = not (self.path / ".hydra").exists()
        self._made = [p for p in (self.path, *self.path.parents) if not p.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.path / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(
                f"run_dir={self.path}: another process is training this run; wait for it"
            ) from None
        if self._is_new:
            (self.path / ".hydra").mkdir(exist_ok=True)
            for name, text in {**self.files, "identity": self.digest}.items():
                (self.path / ".hydra" / name).write_text(text)
        return self

    def __exit__(self, kind: type[BaseException] | None, error, traceback) -> None:
        self._lock.release()
        (self.path / LOCK).unlink(missing_ok=True)
        if kind is None or issubclass(kind, self.keep_on) or not self._is_new or self.finished():
            return
        shutil.rmtree(self.path, ignore_errors=True)
        for parent in self._made[1:]:
            if not any(parent.iterdir()):
                parent.rmdir()
