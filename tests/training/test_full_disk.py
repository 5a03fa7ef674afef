"""A disk that is really full: one line, what was kept is whole, and with room the same command goes on."""

import csv
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from normexp.config.errors import one_line_errors
from normexp.runs import read_summary
from normexp.training.checkpoint import load_to_resume

RUN = [
    "norm=batchnorm",
    "batch_size=256",
    "max_epochs=6",
    "log_every_n_steps=1",
    "monitor=activations",
    "seed=3",
]
OFTEN = ["monitor.activations.every_n_steps=1", "monitor.activations.histogram_every_n_steps=1"]


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if (
        sys.platform != "linux"
        or os.geteuid() != 0
        or mount("-t", "tmpfs", "-o", "size=4m", "none", str(place))
    ):
        pytest.skip("needs the right to mount a small file system")
    yield place
    # Lazily: it goes even if a failed test left a file open, and nobody can remove the folder before.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def mount(*arguments: str) -> int:
    return subprocess.run(["mount", *arguments], capture_output=True).returncode


def leave(disk: Path, free: int) -> None:
    """Fill the disk until so many bytes are free."""
    status = os.statvfs(disk)
    with (disk / "filling").open("ab") as file:
        file.write(bytes(max(0, status.f_bavail * status.f_frsize - free)))


def rows(folder: Path) -> list[tuple[str, ...]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return [tuple(row[name] for name in ("step", "metric", "value")) for row in csv.DictReader(file)]


def stopped(train, capfd, *overrides: str) -> tuple[int, list[str]]:
    """Exit status and error lines of a run that meets the full disk."""
    capfd.readouterr()
    with pytest.raises(SystemExit) as stop, one_line_errors():
        train(*RUN, *OFTEN, *overrides)
    return stop.value.code, capfd.readouterr().err.splitlines()


@pytest.mark.integration
@pytest.mark.parametrize(
    "kib", [8, 100, *(pytest.param(kib, marks=pytest.mark.slow) for kib in (0, 30, 60, 150, 200))]
)
def test_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(disk, train, capfd, kib):
    _, whole = train(*RUN, *OFTEN)
    leave(disk, kib * 1024)
    threads = threading.active_count()
    code, errors = stopped(train, capfd, f"outputs={disk}/o")
    assert (code != 0, len(errors)) == (True, 1), errors
    assert "No space left on device" in errors[0]
    assert threading.active_count() == threads
    for checkpoint in disk.rglob("*.ckpt"):
        assert load_to_resume(checkpoint)["global_step"] > 0
    assert not list(disk.rglob("summary.json"))
    if not list(disk.rglob("last.ckpt")):
        assert not (disk / "o").exists()
    (disk / "filling").unlink()
    _, folder = train(*RUN, *OFTEN, f"outputs={disk}/o")
    assert rows(folder) == rows(whole)
    assert read_summary(folder)["metrics"] == read_summary(whole)["metrics"]
    assert not list(folder.rglob("*.new"))
