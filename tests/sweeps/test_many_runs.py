"""Many runs at a place that answers as told: skipping, tries, signals, other launches, what is said of each."""

import os
import signal
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from fabricated import config, write_run
from filelock import FileLock

from normexp.compare.own_run import own_run
from normexp.config.identity import config_hash, default_folder
from normexp.config.run_spec import RunSpec
from normexp.sweeps import run as module
from normexp.sweeps.job import Job, Outcome, Task
from normexp.sweeps.options import Options
from normexp.sweeps.places import Place, ThisMachine
from normexp.sweeps.run import run

DONE = Outcome("completed", 1.0)


class Answers(Place):
    """Ends each job with the next of its run's answers: an outcome, an error, or what to call before."""

    def __init__(self, answers: dict[int, list], at_once: int = 2):
        self.at_once, self.answers = at_once, answers
        self.open: dict[Future, object] = {}
        self.seen: list[int] = []

    def submit(self, job) -> Future:
        future: Future = Future()
        self.open[future] = job
        self.seen.append(job.spec.config["seed"])
        assert len(self.open) <= self.at_once
        return future

    def look(self) -> None:
        for future, job in list(self.open.items()):
            answer = self.answers.get(job.spec.config["seed"], [DONE]).pop(0)
            if callable(answer):
                answer()
                continue
            del self.open[future]
            future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)

    def __str__(self) -> str:
        return "as told"


def specs(tmp_path: Path, count: int) -> list[RunSpec]:
    found = []
    for seed in range(count):
        own = config("none", 2, seed, outputs=str(tmp_path)) | {"threads": None}
        choices, digest = {"model": "mlp", "norm": "none"}, config_hash(own)
        found.append(RunSpec(own, choices, digest, default_folder(own, choices, digest), (f"seed={seed}",)))
    return found


@pytest.fixture
def go(tmp_path, monkeypatch, capsys):
    """(what became of some runs at a place that answers so, the place, what was printed)."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)

    def launch(answers: dict[int, list], count: int = 3, **options) -> tuple[list[Task], Answers, str]:
        place = Answers(answers, options.get("workers", 2))
        monkeypatch.setattr(module, "choose_place", lambda *_: place)
        found = run(specs(tmp_path, count), Options(**options), folder=tmp_path / "launch", command="typed")
        return found, place, capsys.readouterr().out

    return launch


def test_finished_runs_are_skipped_and_a_failing_one_takes_nobody_along(go, tmp_path):
    write_run(tmp_path / "study", "none", 2, 0)
    cells, place, said = go({1: [Outcome("crashed", 2.0, "no such luck")], 2: [Outcome("diverged", 2.0)]}, 4)
    assert [cell.state for cell in cells] == ["skipped", "crashed", "diverged", "completed"]
    assert place.seen == [1, 2, 3]
    assert "1 completed, 1 crashed, 1 diverged, 1 skipped in " in said
    assert f"crashed: seed=1\n  no such luck\n  {cells[1].job.log}\n" in said
    assert "1 run left: the same command goes on from here" in said


def test_a_plan_starts_nothing_and_leaves_nothing(go, tmp_path, monkeypatch):
    monkeypatch.setattr("normexp.sweeps.estimate.seconds_of", lambda spec: {"steps": 90.0})
    _, place, said = go({}, plan=True)
    assert place.seen == []
    assert not (tmp_path / "launch").exists()
    assert "3 runs, as told" in said
    assert "about 2:15 min if 2 run at a time on idle cores (4:30 min of one core: steps 4:30 min)" in said


def test_a_lost_run_is_tried_again_and_no_more_than_three_times(go):
    killed, gone = BrokenProcessPool("x"), RuntimeError("its node is gone")
    cells, place, said = go({0: [killed, DONE], 1: [gone, gone, gone]}, 2)
    assert [cell.state for cell in cells] == ["completed", "crashed"]
    assert cells[1].error == "its node is gone (3 times)"
    assert place.seen.count(0) == 2
    assert "none-bs2-s0" in said
    assert "its process was killed; is there enough memory?; try 2 of 3" in said


def test_an_exit_status_is_told_apart_from_a_signal(tmp_path):
    ends = {
        "os._exit(3)": "its process ended with exit status 3: it called os._exit, or could not be started",
        "os.kill(os.getpid(), 11)": "its process was ended by SIGSEGV",
        "os.kill(os.getpid(), 9)": "its process was killed; is there enough memory?",
    }
    place = ThisMachine([{}])  # each of its processes ends, and the next job gets a new one
    try:
        for number, (end, said) in enumerate(ends.items()):
            (own := tmp_path / f"own{number}.py").write_text(f"import os\ndef train(arm, seed): {end}\n")
            spec = own_run(f"{own}:train", "", tmp_path, {"arm": "a", "seed": 0})
            future = place.submit(Job(spec, ["normexp"], 1, tmp_path / "log"))
            assert future.exception(60)
            assert place.why_lost(future) == said
    finally:
        place.close()


def test_a_run_that_was_lost_behind_its_summary_is_done(go, tmp_path):
    def finish() -> None:
        write_run(tmp_path / "study", "none", 2, 0)

    cells, _, _ = go({0: [finish, RuntimeError("gone")]}, 1)
    assert [cell.state for cell in cells] == ["completed"]


@pytest.mark.parametrize(
    ("number", "times"),
    [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGTERM, 2), (signal.SIGUSR1, 1), (signal.SIGUSR2, 1)],
)
def test_a_signal_lets_running_runs_save_and_starts_no_other(tmp_path, go, number, times):
    before = signal.signal(number, lambda *_: None)
    sent = [lambda: os.kill(os.getpid(), number)] * times
    try:
        with pytest.raises(SystemExit) as stop:
            go({0: [*sent, Outcome("interrupted", 1.0)]}, 3, workers=1)
    finally:
        signal.signal(number, before)
    assert stop.value.code == 128 + number
    record = (tmp_path / "launch" / "sweep.json").read_text()
    assert record.count('"interrupted"') == 1
    assert record.count('"planned"') == 2


def test_a_second_ctrl_c_does_not_wait(go):
    with pytest.raises(KeyboardInterrupt):
        go({0: [lambda: os.kill(os.getpid(), signal.SIGINT)] * 2}, 1)


def test_a_run_that_another_launch_trains_comes_last_and_needs_no_start_once_done(go, tmp_path):
    other = specs(tmp_path, 1)[0].folder
    other.mkdir(parents=True)
    lock = FileLock(other / ".lock")
    lock.acquire()

    def finish() -> None:
        write_run(tmp_path / "study", "none", 2, 0)
        lock.release()

    cells, place, _ = go({1: [finish, DONE]}, 2)
    assert [cell.state for cell in cells] == ["skipped", "completed"]
    assert place.seen == [1]


def test_a_run_that_another_launch_took_at_the_same_moment_is_asked_for_again(go):
    cells, place, _ = go({0: [Outcome("planned", 0.1), DONE]}, 2)
    assert [cell.state for cell in cells] == ["completed"] * 2
    assert place.seen == [0, 1, 0]
