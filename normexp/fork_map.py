"""Calls in forked processes, where each takes seconds of a core, and all need the libraries that this one imported."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")
KILLED = "its process was killed; is there enough memory?"


def can_fork() -> bool:
    """Whether a copy of this process can work. A copy has one thread; what other threads held stays held. Apple's
    libraries do not work in a copy, and a daemon, such as a worker of a pool, may start none."""
    torch = sys.modules.get("torch")  # which takes a second to load, and tables of runs need none
    has_gpu = torch is not None and torch.cuda.is_initialized()
    alone = threading.active_count() == 1 and not current_process().daemon
    return sys.platform == "linux" and alone and not has_gpu


def fork_map(
    call: Callable[[T], R], items: Sequence[T], workers: int, alone: Callable[[T], bool] = lambda item: False
) -> Iterator[R | str]:
    """`call(item)` of each item, in the order of the items; a line for an item whose process was killed.

    Args:
        call: must not raise. What it returns can be pickled.
        workers: processes at a time. Below 2 all calls are made here.
        alone: whether an item wants the machine for itself, because it measures time.
    """
    together = [index for index, item in enumerate(items) if not alone(item)]
    workers = min(workers, len(together))
    if workers < 2 or not can_fork():
        yield from map(call, items)
        return
    context = get_context("fork")
    taken = context.Value("i", 0)

    def work(results: Connection) -> None:
        """Take items until none is left. A process keeps what claims share."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits ends this one
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        while True:
            with taken.get_lock():
                number, taken.value = taken.value, taken.value + 1
            if number >= len(together):
                return
            results.send((together[number], call(items[together[number]])))

    running: dict[Connection, ForkProcess] = {}
    received: dict[int, R] = {}
    try:
        for _ in range(workers):
            receive, send = context.Pipe(duplex=False)
            running[receive] = context.Process(target=work, args=(send,), daemon=True)
            running[receive].start()
            send.close()
        for index, item in enumerate(items):
            here = index not in together
            while running and (here or index not in received):
                for connection in cast(list[Connection], wait(list(running))):
                    try:
                        received.update([connection.recv()])
                    except EOFError:
                        running.pop(connection).join()
            yield call(item) if here else received.get(index, KILLED)
    finally:
        for process in running.values():
            process.terminate()
            process.join()
