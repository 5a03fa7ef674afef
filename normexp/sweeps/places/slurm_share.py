"""The work of a Slurm job. It saves before its time is over or others need its place, and is started again."""

import contextlib
import signal
from typing import Any

import submitit
from submitit.core.utils import DelayedSubmission

from normexp.sweeps.places.child import STOPS
from normexp.sweeps.places.on_node import Share, run_share
from normexp.training.survive import preempted

MOST_IN_VAIN = 3
RESTART = ("SIGUSR1", "SIGUSR2")  # Slurm sends one of them before it ends a job


class SlurmShare:
    """The function that submitit calls on the node."""

    def __init__(self, share: Share):
        self.share = share
        self.in_vain = 0  # starts in a row that wrote no checkpoint

    def __call__(self) -> dict[str, int | None]:
        with contextlib.suppress(OSError):  # left by an earlier start of this job
            submitit.JobEnvironment().paths.result_pickle.unlink()
        received: list[int] = []
        before = self._checkpoints()
        previous = {number: signal.signal(number, lambda n, _: received.append(n)) for number in STOPS}
        codes = run_share(self.share, lambda: bool(received))
        for number, handler in previous.items():
            signal.signal(number, handler)
        restart = any(signal.Signals(number).name in RESTART for number in received) or (
            signal.SIGTERM in received and preempted()
        )
        if not restart or not any(codes.values()):
            return codes
        self.in_vain = self.in_vain + 1 if self._checkpoints() == before else 0
        if self.in_vain < MOST_IN_VAIN:
            submitits: Any = previous[signal.SIGUSR2]  # puts the job back into the queue and exits
            submitits(signal.SIGUSR2, None)
        for job in self.share.jobs:
            with job.log.open("a") as file:
                file.write(
                    f"Error: no checkpoint within its time limit, {MOST_IN_VAIN} starts in a row; give it more\n"
                )
        return {key: code and 1 for key, code in codes.items()}

    def _checkpoints(self) -> list[float]:
        places = [folder / "checkpoints" / "last.ckpt" for job in self.share.jobs for folder in job.folders]
        return [path.stat().st_mtime for path in places if path.exists()]

    def checkpoint(self) -> DelayedSubmission:
        """Let submitit start the same job again. Each run resumes from its own checkpoint."""
        return DelayedSubmission(self)
