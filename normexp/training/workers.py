"""Notice when one of several processes of a run dies."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytorch_lightning as pl
from pytorch_lightning.strategies.launchers import subprocess_script
from pytorch_lightning.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

from normexp.training.interrupt import Interrupted

POLL_SECONDS = 0.5
# Time for this process to notice a broken connection by itself. A process that waits for a GPU never notices.
GRACE_SECONDS = 10.0


@contextlib.contextmanager
def watching_workers(trainer: pl.Trainer, lost: Callable[[str], None]) -> Iterator[None]:
    """A context around training. If a process that Lightning started dies, this process would wait for it forever. So
    say what happened and exit.

    Lightning's own observer kills this process without a word. An error here ends the other processes.

    Args:
        lost: called from another thread with a text of what happened. Then this process exits with status 1.
    """
    launcher = trainer.strategy.launcher
    if not isinstance(launcher, _SubprocessScriptLauncher):
        yield
        return
    subprocess_script._launch_process_observer = lambda child_processes: None
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_SECONDS):
            for rank, worker in enumerate(launcher.procs, 1):
                if worker.poll():
                    if not over.wait(GRACE_SECONDS):
                        lost(f"process {rank} of this run {_ended(worker.returncode)}")
                        os._exit(1)
                    return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except Interrupted:  # all stop at the same step
        raise
    except BaseException:
        launcher.kill(signal.SIGKILL)
        raise
    finally:
        over.set()


def _ended(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
