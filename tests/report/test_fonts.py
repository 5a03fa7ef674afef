"""The figures' font is cut once, kept in matplotlib's cache, and lies nowhere else."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

ROOT = Path(__file__).parents[2]
KILLED = "import os, signal; from normexp.report.style import families; print(families()[0], flush=True); "
KILLED += "os.kill(os.getpid(), signal.SIGKILL)"


def start(tmp_path: Path, code: str = KILLED) -> subprocess.CompletedProcess:
    places = {"TMPDIR": tmp_path / "temporary", "MPLCONFIGDIR": tmp_path / "matplotlib"}
    for place in places.values():
        place.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        **{key: str(place) for key, place in places.items()},
    }
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


def kept(tmp_path: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "matplotlib").glob("*normexp*")}


def test_killed_process_leaves_no_font_in_the_temporary_folder_and_the_next_cuts_none(tmp_path):
    done = start(tmp_path)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "DejaVu Sans cut\n"), done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []
    first = kept(tmp_path)
    assert len(first) == 2
    for name in first:
        assert len(TTFont(tmp_path / "matplotlib" / name).getGlyphOrder()) < 2000
    assert start(tmp_path).stdout == "DejaVu Sans cut\n"
    assert kept(tmp_path) == first


def test_font_is_drawn_uncut_where_it_cannot_be_kept(tmp_path, monkeypatch):
    import matplotlib

    from normexp.report.style import families

    monkeypatch.setattr(matplotlib, "get_cachedir", lambda: str(tmp_path / "nowhere"))
    assert families.__wrapped__() == ("DejaVu Sans", "DejaVu Sans")


def test_font_that_is_not_whole_is_cut_anew(tmp_path):
    start(tmp_path)
    for name in kept(tmp_path):
        (tmp_path / "matplotlib" / name).write_bytes(b"")
    assert start(tmp_path).stdout == "DejaVu Sans cut\n"


@pytest.fixture(autouse=True)
def no_other_cache(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
