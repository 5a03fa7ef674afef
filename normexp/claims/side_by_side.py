"""Calls in forked processes, for claims that train nothing: each takes seconds of one core, and all need the libraries
that this process has imported."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def can_fork() -> bool:
    """Whether a copy of this process can work. A copy has one thread; what other threads held stays held. Apple's
    libraries do not work in a copy."""
    return sys.platform == "linux" and threading.active_count() == 1 and not torch.cuda.is_initialized()


def side_by_side(
    call: Callable[[T], R], items: Sequence[T], workers: int, alone: Callable[[T], bool] = lambda item: False
) -> Iterator[R | str]:
    """`call(item)` of each item, in the order of the items; a line for an item whose process was killed.

    Args:
        call: must not raise. What it returns can be pickled.
        workers: processes at a time. Below 2 all calls are made here.
        alone: whether an item wants the machine for itself, because it measures time.
    """
    together = [index for index, item in enumerate(items) if not alone(item)]
    if min(workers, len(together)) < 2 or not can_fork():
        yield from map(call, items)
        return
    found: dict[int, R] = {}
    with _started(call, items, together, min(workers, len(together))) as running:
        for index, item in enumerate(items):
            single = index not in together
            while running and (single or index not in found):
                ready = wait(list(running))
                for own in [own for own in running if own in ready]:
                    try:
                        place, result = own.recv()
                        found[place] = result
                    except EOFError:
                        running.pop(own).join()
            yield (
                call(item) if single else found.get(index, "its process was killed; is there enough memory?")
            )


@contextlib.contextmanager
def _started(
    call: Callable[[T], R], items: Sequence[T], together: list[int], workers: int
) -> Iterator[dict[Connection, ForkProcess]]:
    """Processes that share these calls, by the pipe on which their results come."""
    context = get_context("fork")
    taken = context.Value("i", 0)
    running: dict[Connection, ForkProcess] = {}

    def work(results: Connection) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits ends this one
        torch.set_num_threads(1)
        while True:
            with taken.get_lock():
                number, taken.value = taken.value, taken.value + 1
            if number >= len(together):
                return
            try:
                results.send((together[number], call(items[together[number]])))
            except BrokenPipeError:  # nobody waits any more
                return

    for _ in range(workers):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(send,), daemon=True)
        process.start()
        send.close()
        running[receive] = process
    try:
        yield running
    finally:
        for process in running.values():
            process.terminate()
            process.join()
