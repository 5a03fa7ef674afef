"""Calls are made in several processes, and give what one process gives."""

import multiprocessing
import os
import signal
import sys
import threading
import time

import pytest
import torch

from normexp.fork_map import can_fork, fork_map

# From Python 3.12 on a fork beside another thread warns; pytest's workers have one.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def forks(monkeypatch):
    monkeypatch.setattr("normexp.fork_map.can_fork", lambda: True)


def place(item: int) -> tuple[int, int, int]:
    time.sleep(0.05 * (4 - item))  # the first ends last
    return item, os.getpid(), torch.get_num_threads()


@pytest.mark.usefixtures("forks")
def test_results_come_in_order_from_several_processes():
    found = list(fork_map(place, range(4), workers=2))
    assert [item for item, _, _ in found] == [0, 1, 2, 3]
    assert os.getpid() not in (processes := {pid for _, pid, _ in found})
    assert len(processes) == 2
    assert {threads for _, _, threads in found} == {1}


@pytest.mark.usefixtures("forks")
def test_what_measures_time_runs_here_after_all_others():
    done = list(
        fork_map(lambda item: (time.monotonic(), os.getpid()), range(4), 2, alone=lambda item: item == 1)
    )
    assert [pid == os.getpid() for _, pid in done] == [False, True, False, False]
    assert done[1][0] == max(when for when, _ in done)


@pytest.mark.usefixtures("forks")
def test_killed_process_loses_one_claim():
    def dies(item: int) -> int:
        if item == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    assert list(fork_map(dies, range(4), workers=2)) == [
        0,
        "its process was killed; is there enough memory?",
        2,
        3,
    ]


@pytest.mark.usefixtures("forks")
def test_processes_end_with_the_one_that_waits():
    running = fork_map(lambda item: (time.sleep(100 * item), os.getpid())[1], range(2), workers=2)
    first = next(running)
    started = time.monotonic()
    running.close()
    assert time.monotonic() - started < 10
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


@pytest.mark.parametrize("workers", [0, 1])
def test_one_worker_is_this_process(workers):
    assert {pid for _, pid, _ in fork_map(place, range(3, 5), workers)} == {os.getpid()}


def test_a_daemon_is_not_copied(monkeypatch):
    """As a worker of a pool: Python refuses its children."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert can_fork() == (sys.platform == "linux")
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    assert not can_fork()


def test_process_with_threads_is_not_copied():
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert not can_fork()
        assert {pid for _, pid, _ in fork_map(place, range(3, 5), 2)} == {os.getpid()}
    finally:
        stop.set()
        other.join()
