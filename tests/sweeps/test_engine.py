"""Many runs through the engine, on this machine: logs, exit codes, tries, time limits, stopping, other launches."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jobs
import pytest

from normexp.config.run_spec import RunSpec
from normexp.sweeps import engine as queue_module
from normexp.sweeps.cell import Cell, Elsewhere
from normexp.sweeps.engine import Engine
from normexp.sweeps.places import this_machine
from normexp.sweeps.places.place import Ended, Place, Started
from normexp.sweeps.places.this_machine import STOPS, Inside, ThisMachine

ROOT = Path(__file__).parents[2]
N, T, F = Elsewhere.NOTHING, Elsewhere.TRAINING, Elsewhere.FINISHED


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Jobs start without importing torch; the environment forgets its thread counts; nobody pauses."""
    monkeypatch.setattr(this_machine, "PRELOAD", [])
    monkeypatch.setattr(queue_module, "LOOK_SECONDS", 0.0)
    for name in ("NORMEXP_WAIT", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


def cells(tmp_path: Path, count: int) -> list[Cell]:
    """Cells that are done when their process ends with 0."""
    folders = [tmp_path / "mlp" / f"run{index}" for index in range(count)]
    return [
        Cell(f"seed={index}", [RunSpec({"fast_dev_run": True}, {"model": "mlp"}, str(index), folder)])
        for index, folder in enumerate(folders)
    ]


def engine(target, tmp_path: Path, count: int, payload, slots=({},), **more) -> Engine:
    said: list[str] = []
    place = ThisMachine(target, list(slots), 1, **more)
    made = Engine(place, payload, cells(tmp_path, count), tmp_path / "logs", said.append)
    made.said = said
    return made


def log(tmp_path: Path, index: int) -> Path:
    return tmp_path / "logs" / "mlp" / f"run{index}.log"


def wait_until(condition) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_each_job_has_a_process_a_log_and_its_exit_code(tmp_path):
    made = engine(
        jobs.speak,
        tmp_path,
        2,
        lambda c: {"word": c.name, "status": 3 * (c.name == "seed=1")},
        [{"SLOT": "7"}],
    )
    for _ in made.run():
        pass
    assert [cell.state for cell in made.cells] == ["completed", "failed"]
    assert log(tmp_path, 0).read_text() == "seed=0 7 1\n"


def test_error_of_a_job_is_one_line_behind_its_traceback_and_takes_nobody_along(tmp_path):
    made = engine(jobs.fail, tmp_path, 2, lambda c: {"word": c.name})
    for _ in made.run():
        pass
    assert [(cell.state, cell.error) for cell in made.cells] == [
        ("failed", "no seed=0"),
        ("failed", "no seed=1"),
    ]
    assert log(tmp_path, 0).read_text().startswith("Traceback")


@pytest.mark.parametrize("stays", [True, False])
def test_a_process_does_one_job_after_the_other_if_the_job_leaves_no_trace(tmp_path, stays):
    made = engine(jobs.stay, tmp_path, 4, lambda c: {"word": c.name, "stays": stays}, [{}, {}])
    for _ in made.run():
        pass
    assert [cell.state for cell in made.cells] == ["completed"] * 4
    logs = [log(tmp_path, index).read_text().split() for index in range(4)]
    assert [word for _, word in logs] == [cell.name for cell in made.cells]  # each has its own log
    assert len({pid for pid, _ in logs}) == (2 if stays else 4)
    assert not made.place._idle


def test_a_process_that_was_killed_between_two_jobs_is_replaced(tmp_path):
    made = engine(jobs.stay, tmp_path, 2, lambda c: {"word": c.name, "stays": True})
    for cell in made.run():
        if cell is made.cells[0] and cell.state == "completed":
            (idle,) = made.place._idle
            idle.process.kill()
            idle.process.join()
    assert [cell.state for cell in made.cells] == ["completed"] * 2
    assert made.said == []
    assert len({log(tmp_path, index).read_text().split()[0] for index in (0, 1)}) == 2


def test_no_more_jobs_at_a_time_than_slots_and_each_slot_used(tmp_path):
    made = engine(jobs.speak, tmp_path, 5, lambda c: {"word": "x"}, [{"SLOT": "a"}, {"SLOT": "b"}])
    running, most = 0, 0
    for cell in made.run():
        running += 1 if cell.state == "running" else -1
        most = max(most, running)
    assert (most, running) == (2, 0)
    assert {log(tmp_path, index).read_text().split()[1] for index in range(5)} == {"a", "b"}


@pytest.mark.parametrize("number", STOPS)
def test_signal_stops_running_jobs_cleanly_and_starts_no_further_one(tmp_path, number):
    made = engine(jobs.wait_for_signal, tmp_path, 3, lambda c: {"mark": str(tmp_path / f"{c.name}.mark")})
    handler = signal.getsignal(number)
    for cell in made.run():
        if cell.state == "running":
            wait_until(lambda own=cell: own.log.exists() and "waiting" in own.log.read_text())
            os.kill(os.getpid(), number)
    assert [cell.state for cell in made.cells] == ["interrupted", "planned", "planned"]
    assert made.stopped_by == number
    assert (tmp_path / "seed=0.mark").read_text() == "saved"
    assert signal.getsignal(number) is handler


class Queue(Place):
    """A cluster that starts the first of its jobs. Told to stop, it cancels the others."""

    at_once = threads = 2
    room = 3

    def submit(self, jobs):
        self._started += [Started(jobs[0])]
        self.jobs = list(jobs)
        return []

    def _wait(self, seconds):
        os.kill(os.getpid(), signal.SIGINT) if self.jobs else None
        return []

    def stop(self, *, force):
        codes = [130, 143, 1]  # saved, cancelled, ended before anybody saw it run
        self._started += [Ended(job, code) for job, code in zip(self.jobs, codes, strict=True)]
        self.jobs = []

    def close(self): ...

    def __str__(self):
        return "a queue"


def test_what_never_left_the_queue_is_no_interrupted_run(tmp_path):
    said: list[str] = []
    made = Engine(Queue(jobs.speak), lambda cell: None, cells(tmp_path, 3), tmp_path / "logs", said.append)
    for _ in made.run():
        pass
    assert [cell.state for cell in made.cells] == ["interrupted", "planned", "interrupted"]
    assert said == ["stopping: 3 runs to save and end, or to leave the queue; Ctrl-C again kills them"]


def test_error_in_the_consumer_leaves_no_job_behind(tmp_path):
    made = engine(jobs.wait_for_signal, tmp_path, 1, lambda c: {"mark": str(tmp_path / "mark")})
    events = made.run()
    next(events)
    wait_until(lambda: log(tmp_path, 0).exists() and "waiting" in log(tmp_path, 0).read_text())
    events.close()
    wait_until((tmp_path / "mark").exists)


def test_killed_job_is_tried_again_and_no_more_than_three_times(tmp_path):
    made = engine(
        jobs.die,
        tmp_path,
        2,
        lambda c: {"folder": str(tmp_path / c.name), "times": 1 + 8 * (c.name == "seed=1")},
    )
    for _ in made.run():
        pass
    assert [cell.state for cell in made.cells] == ["completed", "failed"]
    assert made.cells[1].error == "killed by signal 9; the last line of its log: dying"
    assert log(tmp_path, 0).read_text() == "dying\nalive\n"
    assert log(tmp_path, 1).read_text() == "dying\n" * 3
    assert made.said == [
        f"again: mlp/run{index}: killed by signal 9; try {number} of 3"
        for index, number in ((0, 2), (1, 2), (1, 3))
    ]


def test_killed_job_that_gets_on_is_tried_as_often_as_it_takes(tmp_path):
    made = engine(jobs.die_later, tmp_path, 1, lambda c: {"folder": str(c.folder), "times": 5})
    for _ in made.run():
        pass
    assert [cell.state for cell in made.cells] == ["completed"]
    assert made.said == ["again: mlp/run0: killed by signal 9; try 2 of 3"] * 5


@pytest.mark.integration
def test_job_whose_time_is_over_goes_on_as_long_as_it_gets_on(tmp_path):
    """Twice it is stopped, each time with a newer checkpoint; the one that writes none is given up."""
    made = engine(
        jobs.slow,
        tmp_path,
        2,
        lambda c: {"folder": str(c.folder), "times": 2, "saves": c.name == "seed=0"},
        [{}, {}],
        time_limit=1.0,
    )
    for _ in made.run():
        pass
    assert [cell.state for cell in made.cells] == ["completed", "failed"]
    assert "no checkpoint within its time limit, 3 times" in made.cells[1].error
    assert sum("it goes on from its checkpoint" in line for line in made.said) == 2
    assert "again: mlp/run1: its time was over; try 3 of 3" in made.said


def test_run_of_another_launch_is_waited_for_and_needs_no_start_once_done(tmp_path, monkeypatch):
    looks = {"seed=0": [T, T, F], "seed=1": [N], "seed=2": [T, N]}
    monkeypatch.setattr(Cell, "look", lambda cell: looks[cell.name].pop(0))
    monkeypatch.setattr(Cell, "skip_if_finished", lambda cell: setattr(cell, "state", "skipped"))
    made = engine(jobs.speak, tmp_path, 3, lambda c: {"word": "x"})
    states: dict[str, list[str]] = {}
    for cell in made.run():
        states.setdefault(cell.name, []).append(cell.state)
    assert states == {
        "seed=0": ["elsewhere", "skipped"],
        "seed=1": ["running", "completed"],
        "seed=2": ["elsewhere", "running", "completed"],
    }
    assert sorted(path.name for path in (tmp_path / "logs" / "mlp").iterdir()) == ["run1.log", "run2.log"]


def test_inside_this_process_jobs_run_one_by_one_and_keep_their_errors(tmp_path):
    def target(word: str) -> None:
        if word == "seed=1":
            raise ValueError("no such luck")
        if word == "seed=2":
            sys.exit(143)

    made = Engine(Inside(target), lambda cell: cell.name, cells(tmp_path, 3), tmp_path / "logs")
    order = [(cell.name, cell.state) for cell in made.run()]
    assert order[:4] == [
        ("seed=0", "running"),
        ("seed=0", "completed"),
        ("seed=1", "running"),
        ("seed=1", "failed"),
    ]
    assert made.cells[1].error == "no such luck"
    assert made.cells[2].state == "interrupted"


def test_jobs_inside_this_process_wait_for_another_launch_and_leave_no_trace(tmp_path, monkeypatch):
    monkeypatch.delenv("NORMEXP_WAIT")
    seen = []
    inside = Inside(lambda _: seen.append(os.environ.get("NORMEXP_WAIT")))
    made = Engine(inside, str, cells(tmp_path, 2), tmp_path / "logs")
    list(made.run())
    assert seen == ["1", "1"]
    assert "NORMEXP_WAIT" not in os.environ


@pytest.mark.integration
def test_signal_that_reaches_all_processes_is_answered_by_the_parent_alone(tmp_path):
    """As Slurm sends it, and a terminal: the server that forks the jobs stays, so their own exit statuses arrive."""
    code = """
import os, signal, sys, pathlib, time, types
import jobs
from normexp.sweeps.places import this_machine as module
from normexp.sweeps.cell import Cell
from normexp.sweeps.engine import Engine
module.PRELOAD = []
folder, number = pathlib.Path(sys.argv[1]), int(sys.argv[2])
before = []
signal.signal(number, lambda *_: before.append("asked"))
spec = types.SimpleNamespace(config={"fast_dev_run": True}, choices={"model": "mlp"}, folder=folder / "run")
cell = Cell("x", [spec])
place = module.ThisMachine(jobs.wait_for_signal, [{}], 1)
engine = Engine(place, lambda c: {"mark": str(folder / "mark")}, [cell], folder)
for cell in engine.run():
    if cell.state != "running":
        print(cell.state, engine.stopped_by == number, (folder / "mark").read_text())
        continue
    while not cell.log.exists() or "waiting" not in cell.log.read_text():
        time.sleep(0.01)
    os.killpg(0, number)
engine.previous(number, None)
print(before)
"""
    for number in STOPS:
        folder = tmp_path / str(int(number))
        folder.mkdir()
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "sweeps")])
        done = subprocess.run(
            [sys.executable, "-c", code, folder, str(int(number))],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            start_new_session=True,
        )
        assert (done.stdout, done.stderr) == ("interrupted True saved\n['asked']\n", "")
