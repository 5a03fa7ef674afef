"""A pipe that nobody reads any more, or a full disk under the log, ends no work."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAID = "nothing can be printed any more ({}); the work goes on\n"


def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


STREAMS = {
    "Broken pipe": closed_pipe,
    "No space left on device": lambda: os.fdopen(os.open("/dev/full", os.O_WRONLY), "w"),
}


@contextlib.contextmanager
def lost(why: str) -> Iterator[None]:
    """Standard output takes nothing; the file descriptor of this process stays as it is."""
    with STREAMS[why]() as stream, contextlib.redirect_stdout(stream):
        yield


pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


@pytest.mark.integration
@pytest.mark.parametrize("why", STREAMS)
def test_run_whose_screen_is_gone_is_finished(why, tmp_path, capfd):
    from normexp.config.run_spec import specs
    from normexp.training.train import train

    small = ["trainer=cpu", "monitor=none", "model.depth=1", "model.width=4", "max_epochs=2"]
    with lost(why):
        train(*specs([*small, f"outputs={tmp_path}"]))
    assert len(list(tmp_path.rglob("summary.json"))) == 1
    assert capfd.readouterr().err == SAID.format(why)


@pytest.mark.parametrize("why", STREAMS)
def test_claim_whose_screen_is_gone_is_judged(why, tmp_path, capfd):
    from normexp.cli.verify import main

    with lost(why):
        assert main(["claim=S01", f"out={tmp_path}"]) == 0
    assert (tmp_path / "S01" / "verdict.json").exists()
    assert capfd.readouterr().err == SAID.format(why)


@pytest.mark.slow
def test_command_says_so_once_and_ends_well(tmp_path):
    asked = ["trainer=cpu", "monitor=none", "model.depth=1", "max_epochs=4", f"outputs={tmp_path}"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "train.py", *asked], cwd=ROOT, **streams) as process:
        process.stdout.readline()
        process.stdout.close()  # as `| head -1` does
        assert process.stderr.read() == SAID.format("Broken pipe")
    assert process.returncode == 0
    assert list(tmp_path.rglob("summary.json"))
