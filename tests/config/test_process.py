"""A command's process ends at once, and leaves nothing undone that Python would have done."""

import gc
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from normexp.config.process import fast_imports

ROOT = Path(__file__).parents[2]
# Python would take it down at the end, and then say so. It knows nothing of the command, whose own things go first.
TOLD = """
import os, sys
exec("import os, sys\\nclass Told:\\n    def __del__(self, write=os.write): write(1, b'taken down ')", own := {})
sys.told = own['Told']()
from normexp.config.process import run_as_process
"""


def run(code: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", TOLD + code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_what_was_printed_is_written_and_nothing_is_taken_down():
    done = run("run_as_process(lambda: print('printed'))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "printed\n", "")


def test_threads_end_and_registered_functions_run_before():
    done = run(
        "import atexit, threading, time\n"
        "def late(): time.sleep(0.3); print('thread')\n"
        "def main():\n"
        "    atexit.register(print, 'registered')\n"
        "    threading.Thread(target=late).start()\n"
        "run_as_process(main)"
    )
    assert (done.returncode, done.stdout) == (0, "thread\nregistered\n")


@pytest.mark.parametrize("opened", ["open({path!r}, 'w')", "gzip.open({path!r}, 'wt')"])
def test_open_file_is_written_to_its_end_by_python_itself(opened, tmp_path):
    path = tmp_path / "numbers"
    own = opened.format(path=str(path))
    done = run(f"import gzip\nfile = {own}\ndef main():\n    file.write('all of it')\nrun_as_process(main)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "taken down ", "")
    content = path.read_bytes()
    assert (gzip.decompress(content) if "gzip" in opened else content) == b"all of it"


def test_status_and_errors_pass():
    assert run("run_as_process(lambda: 3)").returncode == 3
    assert run("run_as_process(sys.exit, 2)").returncode == 2
    done = run("run_as_process(lambda: 1 / 0)")
    assert (done.returncode, "ZeroDivisionError" in done.stderr) == (1, True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk_under_what_was_printed_is_no_success():
    code = "from normexp.config.process import run_as_process\nrun_as_process(lambda: print('lost'))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    assert done.returncode == 120  # Python's own status


def test_program_that_runs_a_script_inside_itself_goes_on(tmp_path):
    """As the golden runs do."""
    script, around = tmp_path / "script.py", tmp_path / "around.py"
    script.write_text("from normexp.config.process import run_as_process\nrun_as_process(lambda: None)\n")
    around.write_text(
        "import runpy, sys\ntry:\n    runpy.run_path(sys.argv[1], run_name='__main__')\n"
        "except SystemExit as stop:\n    print('goes on', stop.code)\n"
    )
    command = [sys.executable, str(around), str(script)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on None\n", "")


@pytest.mark.parametrize("started", [["-m", "starts"], ["starts.py"]])
def test_module_and_script_end_at_once(started, tmp_path):
    (tmp_path / "starts.py").write_text(f"{TOLD}run_as_process(lambda: print('printed'))\n")
    done = subprocess.run(
        [sys.executable, *started],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "printed\n", "")


def test_profile_of_a_command_is_written(tmp_path):
    """cProfile writes after the command."""
    script, profile = tmp_path / "script.py", tmp_path / "profile"
    script.write_text("from normexp.config.process import run_as_process\nrun_as_process(lambda: None)\n")
    command = [sys.executable, "-m", "cProfile", "-o", str(profile), str(script)]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, timeout=60)
    assert profile.stat().st_size > 0


def test_nothing_is_searched_for_garbage_while_imports_are_made():
    seen: list[str] = []

    def note(phase: str, info: dict) -> None:
        seen.append(phase)

    collects, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.enable()
    gc.callbacks.append(note)
    try:
        with fast_imports():
            seen.clear()
            kept = [[index] for index in range(5000)]
            assert (seen, gc.isenabled()) == ([], False)
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen + len(kept)
        more = [[index] for index in range(5000)]
        assert seen, len(more)
        with pytest.raises(ImportError), fast_imports():
            raise ImportError
        assert gc.isenabled()
        gc.disable()
        with fast_imports():  # of a caller who wants no collection
            pass
        assert not gc.isenabled()
    finally:
        gc.callbacks.remove(note)
        (gc.enable if collects else gc.disable)()
