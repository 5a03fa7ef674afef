"""Jobs in processes of their own: logs, exit codes, places, and stopping."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import jobs
import pytest

from normexp.sweeps import pool as module
from normexp.sweeps.pool import STOPS, Ended, Job, Pool, Started

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pool(monkeypatch):
    """A pool whose jobs start without importing torch, and an environment that forgets its thread counts."""
    monkeypatch.setattr(module, "PRELOAD", [])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    return Pool(1)


def test_each_job_has_a_process_a_log_and_its_exit_code(pool, tmp_path):
    words = {"one": 0, "two": 3}
    todo = [
        Job(index, {"word": word, "status": status}, tmp_path / "logs" / f"{word}.log")
        for index, (word, status) in enumerate(words.items())
    ]
    ended = {
        event.job.index: event.exit_code
        for event in pool.run(jobs.speak, todo, [{"SLOT": "7"}])
        if isinstance(event, Ended)
    }
    assert ended == {0: 0, 1: 3}
    assert (tmp_path / "logs" / "one.log").read_text() == "one 7 1\n"


def test_no_more_jobs_at_a_time_than_slots_and_each_slot_used_once(pool, tmp_path):
    todo = [Job(index, {"word": "x"}, tmp_path / f"{index}.log") for index in range(5)]
    running, most = 0, 0
    for event in pool.run(jobs.speak, todo, [{"SLOT": "a"}, {"SLOT": "b"}]):
        running += 1 if isinstance(event, Started) else -1
        most = max(most, running)
    assert (most, running) == (2, 0)
    assert {path.read_text().split()[1] for path in tmp_path.glob("*.log")} == {"a", "b"}


@pytest.mark.parametrize("number", STOPS)
def test_signal_stops_running_jobs_cleanly_and_starts_no_further_one(pool, tmp_path, number):
    todo = [Job(i, {"mark": str(tmp_path / f"{i}.mark")}, tmp_path / f"{i}.log") for i in range(3)]
    handler = signal.getsignal(number)
    ends = []
    for event in pool.run(jobs.wait_for_signal, todo, [{}]):
        if isinstance(event, Ended):
            ends.append((event.job.index, event.exit_code))
            continue
        while not (log := tmp_path / f"{event.job.index}.log").exists() or "waiting" not in log.read_text():
            pass
        os.kill(os.getpid(), number)
    assert ends == [(0, 143)]
    assert pool.stopped_by == number
    assert (tmp_path / "0.mark").read_text() == "saved"
    assert signal.getsignal(number) is handler


def test_error_in_the_consumer_leaves_no_job_behind(pool, tmp_path):
    events = pool.run(
        jobs.wait_for_signal, [Job(0, {"mark": str(tmp_path / "mark")}, tmp_path / "log")], [{}]
    )
    next(events)
    while not (tmp_path / "log").exists() or "waiting" not in (tmp_path / "log").read_text():
        pass
    events.close()
    for _ in range(100):
        if (tmp_path / "mark").exists() and (tmp_path / "mark").read_text():
            break
        signal.sigtimedwait([], 0.05)
    assert (tmp_path / "mark").read_text() == "saved"


def test_signal_that_reaches_all_processes_is_answered_by_the_parent_alone():
    """As Slurm sends it, and a terminal: the server that forks the jobs stays, so their own exit statuses arrive."""
    code = """
import os, signal, sys, pathlib
import jobs
from normexp.sweeps import pool as module
from normexp.sweeps.pool import Ended, Job, Pool
module.PRELOAD = []
folder, number = pathlib.Path(sys.argv[1]), int(sys.argv[2])
before = []
signal.signal(number, lambda *_: before.append("asked"))
pool = Pool(1)
for event in pool.run(jobs.wait_for_signal, [Job(0, {"mark": str(folder / "mark")}, folder / "log")], [{}]):
    if isinstance(event, Ended):
        print(event.exit_code, pool.stopped_by == number, (folder / "mark").read_text())
        continue
    while not (folder / "log").exists() or "waiting" not in (folder / "log").read_text():
        pass
    os.killpg(0, number)
pool.previous(number, None)
print(before)
"""
    for number in STOPS:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", code, folder, str(int(number))],
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "sweeps")]),
                },
                capture_output=True,
                text=True,
                start_new_session=True,
            )
        assert (done.stdout, done.stderr) == ("143 True saved\n['asked']\n", "")
