"""Calls to Slurm: submit jobs, list their states, cancel them."""

import getpass
import pickle
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

# In any other state, a job has ended.
ALIVE = {
    "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESIZING",
    "RESV_DEL_HOLD", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED",
}  # fmt: skip
# Parts of sbatch's messages when it may take the job later.
FULL = ("submit limit", "temporarily", "try again", "timed out", "unable to contact")
# A limit of the account, which a line of its own names. Only one on the number of jobs passes by waiting.
LIMIT = re.compile(r"\b(?:qos|assoc)\w*limit\b", re.IGNORECASE)
SECONDS = 60  # for an answer
ASKED, PAUSE = 5, 5.0  # so often, with so many seconds in between, before Slurm counts as silent
RESTARTS = 10**6  # after time limits; submitit asks for a number


class Refused(Exception):
    """Slurm refuses a job. `full`: it may take it later."""

    def __init__(self, message: str):
        super().__init__(message)
        limits = LIMIT.findall(message)
        self.full = (
            all("submit" in limit.lower() for limit in limits)
            if limits
            else any(part in message.lower() for part in FULL)
        )


def submit(folder: Path, parameters: Mapping[str, Any], calls: Sequence[Callable[[], Any]]) -> list[str]:
    """Put an array of jobs into the queue. Returns their numbers. Raises Refused, or ValueError for a parameter that
    sbatch does not know."""
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=RESTARTS)
    try:
        executor.update_parameters(**parameters)
    except ValueError as error:
        raise ValueError(f"slurm: {str(error).splitlines()[0]}") from None
    try:
        with executor.batch():
            jobs = [executor.submit(call) for call in calls]
    except (FailedJobError, FailedSubmissionError) as error:
        lines = [line for line in str(error).splitlines() if "rror" in line] or str(error).splitlines()[-1:]
        said = [line.removeprefix("sbatch: ").removeprefix("error: ").strip() for line in lines]
        raise Refused("; ".join(dict.fromkeys(said))) from None
    return [job.job_id for job in jobs]


def states(names: Iterable[str]) -> dict[str, str] | None:
    """Number -> state of all jobs with these names. Ended jobs are listed for a few minutes. None without an answer."""
    rows = _queue(names, "--states=all")
    return None if rows is None else {number: state for number, _, _, state in rows}


def arrays(names: Iterable[str]) -> dict[tuple[str, int], str]:
    """(name, place in its array) -> number of the jobs that run or wait. Raises ValueError without an answer: whoever
    takes silence for an empty queue starts everything twice."""
    for left in reversed(range(ASKED)):
        if (rows := _queue(names)) is not None:
            return {(name, index): number for number, name, index, state in rows if state in ALIVE}
        if left:
            time.sleep(PAUSE)
    raise ValueError(
        "place=slurm: squeue does not answer, and jobs of an earlier launch may still run; try again when it does"
    )


def _queue(names: Iterable[str], *options: str) -> list[tuple[str, str, int, str]] | None:
    command = [
        "squeue",
        f"--user={getpass.getuser()}",
        "--noheader",
        "--array",
        f"--name={','.join(names)}",
        *options,
    ]
    try:
        done = subprocess.run(
            [*command, "--format=%F|%K|%T|%j"], capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    rows = []
    for line in done.stdout.splitlines():
        job, index, state, name = line.strip().split("|")
        number = f"{job}_{index}" if index.isdecimal() else job
        rows.append((number, name, int(index) if index.isdecimal() else 0, state))
    return rows


def cancel(names: Iterable[str], *, force: bool) -> None:
    """End jobs. Waiting ones end at once, running ones after they have saved, or at once with `force`."""
    own = f"--name={','.join(names)}"
    command = ["scancel", f"--user={getpass.getuser()}", own]
    for more in (["--state=PENDING"], [] if force else ["--signal=TERM"]):
        subprocess.run([*command, *more], capture_output=True, timeout=SECONDS)


def read_result(path: Path) -> dict[str, int | None] | None:
    """Exit codes by key from a job's result; None if it left none, or only an error."""
    try:
        kind, result = pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        return None
    return result if kind == "success" else None
