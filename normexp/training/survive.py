"""A run that must stop: signals end it between two steps with a checkpoint, Slurm starts it again, lost workers end it.

The same command resumes a stopped run from `checkpoints/last.ckpt`.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from lightning_fabric.plugins.environments import SLURMEnvironment
from pytorch_lightning.strategies.launchers import subprocess_script
from pytorch_lightning.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from pytorch_lightning.utilities.exceptions import SIGTERMException
from rich.console import Console

from normexp.config.process import note_interrupt
from normexp.runs.summary import Damaged
from normexp.training.checkpoint import load_to_resume
from normexp.training.folder import RunFolder

# Slurm and submitit send one of the last two before a job's time is over, or when other jobs need its place.
STOPS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)
PAUSE_AT = "NORMEXP_PAUSE_AT"  # the part of its length after which a run stops as after Ctrl-C; sweeps set it
POLL_SECONDS = 0.5  # between two looks at the other processes of a run
# Time for this process to notice a broken connection by itself. A process that waits for a GPU never notices.
GRACE_SECONDS = 10.0


class Interrupted(Exception):
    """A signal asked training to stop. A checkpoint was kept."""

    def __init__(self, signum: int, step: int, previous: Any = None):
        self.signum, self.previous = signum, previous
        super().__init__(f"interrupted by {signal.Signals(signum).name} at step {step}")

    def forward_signal(self) -> str | None:
        """Call the signal handler that was there before; submitit's starts the job again and ends the process. If there
        was none, ask Slurm itself. Ctrl-C is answered here and goes no further. Returns what was done, or None."""
        if self.signum == signal.SIGINT:
            return None
        if callable(self.previous):
            try:
                self.previous(self.signum, None)
            except subprocess.CalledProcessError as error:
                if error.returncode >= 0:
                    raise
                # Slurm took the job, and ended submitit's `scontrol requeue` together with it.
            return None
        asked_to_end = self.signum == signal.SIGTERM and not preempted()
        return None if asked_to_end else requeue()


class StoppedAtOnce(BaseException):
    """A second Ctrl-C. It is not a KeyboardInterrupt, because Lightning turns that into exit status 1, as if an error
    had ended the run."""

    signum = signal.SIGINT

    def __init__(self) -> None:
        super().__init__("stopped at once by a second SIGINT")


class StopOnSignal(pl.Callback):
    """Saves between two steps, when weights, optimizer, monitors and progress agree. A second Ctrl-C stops at once.

    It must be the first callback: at the start of a step it runs before those that begin to measure the step. It is
    also a context around training and what follows, so that the process gets its own signal handlers back.

    Args:
        save: called with the trainer. All processes of a run call it.
    """

    def __init__(self, save: Callable[[pl.Trainer], None]):
        self.save = save
        self.received: int | None = None
        self._trainer: pl.Trainer | None = None
        self._trained = False  # nothing is left to save
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopOnSignal":
        for signum in STOPS:
            self._previous[signum] = signal.signal(signum, self._remember)
        return self

    def __exit__(self, *_) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def _remember(self, signum: int, frame: Any) -> None:
        if self.received is not None and signum == signal.SIGINT:
            raise StoppedAtOnce
        self.received = signum
        if self._trained:
            self._stop(signum)

    def _stop(self, signum: int) -> None:
        assert self._trainer is not None  # set at the start of training, and only then is this called
        raise Interrupted(signum, self._trainer.global_step, self._previous.get(signum))

    def on_train_start(self, trainer, module) -> None:
        self._trainer = trainer
        # Lightning installed its own handler, which stops with exit status 0 and without a checkpoint.
        signal.signal(signal.SIGTERM, self._remember)
        # A separate group on the CPU, so that processes can ask each other without waiting for a device.
        group = dist.new_group(backend="gloo") if trainer.world_size > 1 else None
        self._group = group if isinstance(group, dist.ProcessGroup) else None

    def on_validation_end(self, trainer, module) -> None:
        pause = float(os.environ.get(PAUSE_AT) or "inf") * module.total_steps
        if pause <= trainer.global_step < module.total_steps:
            self.received = self.received or signal.SIGINT  # which goes no further

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        if self.received is None and self._group is None:
            return
        # Not at the end of the batch before: a resumed run would lose a validation that is due there. Not where a
        # checkpoint would lose the gradients of half an accumulation, or a monitor's view of the first of two steps.
        if batch_idx % trainer.accumulate_grad_batches or any(
            getattr(callback, "watching", False) for callback in trainer.callbacks
        ):
            return
        if signum := self._agreed():
            self.save(trainer)
            self._stop(signum)

    def _agreed(self) -> int | None:
        """The signal that some process of the run got. All must stop at the same step, or they would wait for each
        other forever."""
        if self._group is None:
            return self.received
        received = torch.tensor(self.received or 0)
        dist.all_reduce(received, dist.ReduceOp.MAX, group=self._group)
        return int(received) or None

    def on_train_end(self, trainer, module) -> None:
        self._trained = True  # from here on, the last checkpoint is enough to do everything again
        if self.received is not None:
            self._stop(self.received)


@contextlib.contextmanager
def stopping(folders: Sequence[RunFolder], console: Console) -> Iterator[None]:
    """A context around training. If training stops before its end, say what is left. After a signal, exit with its
    status. An error is raised on, with `in_training = True`.
    """
    with note_interrupt() as interrupt:
        before = interrupt.came
        try:
            yield
        except BaseException as stop:
            asked = isinstance(stop, (Interrupted, StoppedAtOnce, SIGTERMException, KeyboardInterrupt))
            turned = interrupt.came and not before  # a library answers Ctrl-C with an error of its own
            if not isinstance(stop, Damaged):  # which names its own remedy: nothing can go on from there
                why = "interrupted" if turned else str(stop) or type(stop).__name__
                say_what_is_left(folders, console, why if asked or turned else None)
            if not asked and not turned:
                vars(stop)["in_training"] = True
                raise
            if isinstance(stop, Interrupted) and (done := stop.forward_signal()):
                console.print(done, highlight=False, markup=False, soft_wrap=True)
            terminated = isinstance(stop, SIGTERMException)
            sys.exit(128 + (signal.SIGTERM if terminated else getattr(stop, "signum", signal.SIGINT)))


def say_what_is_left(folders: Sequence[RunFolder], console: Console, why: str | None) -> None:
    """Print where the same command will resume, and the folders. `why` is None for an error."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    # By os.path, for which a path that no file can have does not exist.
    kept = [folder for folder in folders if os.path.exists(folder.last_checkpoint)]
    plural = "s" * (len(kept) > 1)
    if not kept:
        if why:
            say(f"{why}: no checkpoint yet")
        return
    try:
        steps = {load_to_resume(folder.last_checkpoint, folder.digest)["global_step"] for folder in kept}
    except ValueError as damage:  # a checkpoint counts as kept only if it can be read
        say(f"{why or 'the run failed'}: {damage}")
        return
    at = f", at step {min(steps):,}" if len(steps) == 1 else ""
    say(f"{why or 'the run failed'}: checkpoint{plural} kept; the same command goes on from there{at}")
    say(f"folder: {kept[0].path.parent if plural else kept[0].path}")


def preempted() -> bool:
    """Whether Slurm gives the place of this job to another one. It then sends SIGTERM, as `scancel` does, and does not
    start a job again that ends by itself in its grace time."""
    if not SLURMEnvironment.detect():
        return False
    command = ["scontrol", "--oneliner", "show", "job", os.environ["SLURM_JOB_ID"]]
    try:
        shown = subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return False
    found = re.search(r"\bPreemptTime=(\d\S*)", shown)  # `None` where it is not preempted
    return found is not None


def requeue() -> str | None:
    """Ask Slurm to start this batch job again; only its first process asks. Returns what was done in a few words, or
    None outside a batch job."""
    if not SLURMEnvironment.detect() or os.environ.get("SLURM_PROCID", "0") != "0":
        return None
    job = os.environ["SLURM_JOB_ID"]
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    try:
        subprocess.run(["scontrol", "requeue", job], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", None) or error
        return f"Slurm did not take job {job} back ({str(why).strip()})"
    return f"Slurm starts job {job} again"


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
                if status := worker.poll():
                    if not over.wait(GRACE_SECONDS):
                        how = (
                            f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
                        )
                        lost(f"process {rank} of this run {how}")
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


def give_up(folder: RunFolder, console: Console, why: str) -> None:
    """Say why and leave the folder, when this process cannot continue and cannot raise an error."""
    say_what_is_left([folder], console, None)
    folder.leave()
    print(f"Error: {why}", file=sys.stderr, flush=True)
