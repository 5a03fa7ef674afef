"""The messages and the exit status of a run that stops before its end."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence

from pytorch_lightning.utilities.exceptions import SIGTERMException
from rich.console import Console

from normexp.training.checkpoint import load_to_resume
from normexp.training.folder import RunFolder
from normexp.training.interrupt import Interrupted, StoppedAtOnce


@contextlib.contextmanager
def stopping(folders: Sequence[RunFolder], console: Console) -> Iterator[None]:
    """A context around training. If training stops before its end, say what is left. After a signal, exit with its
    status. An error is raised on.
    """
    try:
        yield
    except BaseException as stop:
        asked = isinstance(stop, (Interrupted, StoppedAtOnce, SIGTERMException, KeyboardInterrupt))
        say_what_is_left(folders, console, str(stop) or type(stop).__name__ if asked else None)
        if not asked:
            raise
        if isinstance(stop, Interrupted) and (done := stop.hand_on()):
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
        steps = {load_to_resume(folder.last_checkpoint)["global_step"] for folder in kept}
    except ValueError as damage:  # a checkpoint counts as kept only if it can be read
        say(f"{why or 'the run failed'}: {damage}")
        return
    at = f", at step {min(steps):,}" if len(steps) == 1 else ""
    say(f"{why or 'the run failed'}: checkpoint{plural} kept; the same command goes on from there{at}")
    say(f"folder: {kept[0].path.parent if plural else kept[0].path}")


def give_up(folder: RunFolder, console: Console, why: str) -> None:
    """Say why and leave the folder, when this process cannot continue and cannot raise an error."""
    say_what_is_left([folder], console, None)
    folder.leave()
    print(f"Error: {why}", file=sys.stderr, flush=True)
