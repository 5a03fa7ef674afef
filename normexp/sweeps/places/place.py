"""Where many runs are computed: the options that all commands share, and the interface between the engine and a place.

`train.py -m`, `normexp verify` and `normexp evidence` take the options as flags: `--place slurm --plan`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

PLACES = ("here", "slurm", "ray")
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
SIZES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where and how runs are computed. None of these options changes the results of a run.

    Args:
        place: `here`, this machine; `slurm`, jobs of a Slurm cluster; `ray`, a running Ray cluster.
        workers: runs at a time. None takes one per core or per GPU. 0 runs them one by one in this process (for a
            debugger). On a cluster, at most this many jobs of this launch run or wait.
        runs_per_gpu: number of runs that share a GPU. Small runs leave most of it idle.
        gpus: GPUs of each run on a cluster; 0.25 lets four share one.
        threads: CPU threads of each run on a cluster.
        memory: of each run, `4GB`.
        time_limit: `30min`, `2h`. Then a run saves a checkpoint, makes room for others and resumes later.
        address: of the Ray cluster, `host:port`; by default RAY_ADDRESS, or this machine.
        trust_network: use a Ray cluster that accepts work from anyone who reaches its ports.
        slurm: more options of sbatch, `{partition: gpu, account: mine}`.
        rates: `halving` cuts learning rates of a sweep that are behind early; see `normexp.sweeps.halving`.
        plan: show the plan and start nothing.
        skip_invalid: leave cells out that cannot run, and name them.
    """

    place: str = "here"
    workers: int | None = None
    runs_per_gpu: int = 1
    gpus: float | None = None
    threads: int | None = None
    memory: str | None = None
    time_limit: str | None = None
    address: str | None = None
    trust_network: bool = False
    slurm: Mapping[str, Any] = field(default_factory=dict)
    rates: str | None = None
    plan: bool = False
    skip_invalid: bool = False

    def check(self, prefix: str = "") -> "Options":
        """Raise ValueError with one line for the first mistake; it names the option with this prefix."""
        if self.place not in PLACES:
            raise ValueError(f"{prefix}place={self.place}: choose from {', '.join(PLACES)}")
        for name, least in (("workers", 0), ("runs_per_gpu", 1), ("threads", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise ValueError(f"{prefix}{name}={value}: must be a whole number, at least {least}")
        if self.gpus is not None and not (isinstance(self.gpus, int | float) and self.gpus >= 0):
            raise ValueError(f"{prefix}gpus={self.gpus}: must be a number, 0.25 for a quarter of one")
        if self.rates not in (None, "halving"):
            raise ValueError(
                f"{prefix}rates={self.rates}: must be halving; the rates themselves are lr=0.01,0.1"
            )
        if self.rates and self.place != "here":
            raise ValueError(
                f"{prefix}rates=halving: runs pause and go on, at place=here alone; leave one out"
            )
        if self.place != "here" and self.workers == 0:
            raise ValueError(f"{prefix}workers=0: runs inside this process; leave place out")
        for name, value in self.slurm.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", str(name)) or re.search(r"[\x00-\x1f\x7f]", str(value)):
                raise ValueError(f"{prefix}slurm={name}={value!r}: write an option of sbatch, account=mine")
        self.time_limit_in(prefix)
        self.memory_in(prefix)
        return self

    def time_limit_in(self, prefix: str = "") -> float | None:
        """The time limit in seconds."""
        return _measure(f"{prefix}time_limit", self.time_limit, UNITS, "30min, 2h, 1d")

    def memory_in(self, prefix: str = "") -> float | None:
        """The memory in bytes."""
        return _measure(f"{prefix}memory", self.memory, SIZES, "500MB, 4GB")


def _measure(name: str, value: Any, units: Mapping[str, int], examples: str) -> float | None:
    if value is None:
        return None
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({'|'.join(units)})", str(value), re.IGNORECASE)
    if not match or not float(match[1]):
        raise ValueError(f"{name}={value}: write {examples}")
    return float(match[1]) * {unit.lower(): size for unit, size in units.items()}[match[2].lower()]


FLAGS = {f"--{option.name.replace('_', '-')}": option.name for option in fields(Options)}
SWITCHES = ("plan", "trust_network", "skip_invalid")
TEXTS = ("memory", "time_limit", "address", "place", "rates")  # the others are read as yaml


def take_flags(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """(the other arguments, name and value of each option that is given as a flag). `--slurm partition=gpu` gives
    `slurm.partition`. Raises ValueError for a flag without a value."""
    rest: list[str] = []
    flags: list[tuple[str, str]] = []
    waiting = iter(arguments)
    for argument in waiting:
        flag, equals, value = argument.partition("=")
        name = FLAGS.get(flag)
        if name is None:
            rest.append(argument)
            continue
        if name in SWITCHES:
            value = value if equals else "true"
        elif not equals:
            value = next(waiting, "")
        if not value:
            raise ValueError(f"{flag}: needs a value")
        if name == "slurm":
            key, _, value = value.partition("=")
            name = f"slurm.{key}"
        flags.append((name, value))
    return rest, flags


def options_of(given: Sequence[tuple[str, str]]) -> Options:
    """The options of flags. Raises ValueError with one line."""
    import yaml

    values: dict[str, Any] = {}
    for name, text in given:
        if re.search(r"[\x00-\x1f\x7f]", text):  # sbatch would read a second line as another option
            raise ValueError(f"--{name.replace('_', '-').replace('.', '=', 1)}={text!r}: must be one line")
        value = text if name in TEXTS else yaml.safe_load(text)
        head, _, key = name.partition(".")
        if key:
            values.setdefault(head, {})[key] = value
        else:
            values[name] = value
    try:
        return Options(**values).check("--")
    except ValueError as error:
        name, equals, rest = str(error).partition("=")
        raise ValueError(name.replace("_", "-") + equals + rest) from None


@dataclass
class Job:
    """The work of one run: `target(payload)`.

    Args:
        key: of the cell, equal in every launch of the same study.
        payload: sent by pickle.
        log: stdout and stderr meanwhile. A second try of the same launch appends to the file.
        folders: of its runs. Their checkpoints show whether a try made progress.
    """

    key: str
    payload: Any
    log: Path
    folders: tuple[Path, ...] = ()


@dataclass
class Started:
    """A job's process has started."""

    job: Job


@dataclass
class Ended:
    """A job's process has ended.

    Args:
        exit_code: negative for a signal, as in Python; None if nobody saw it end.
        lost: the reason if it ended without a result, e.g. "its node is gone". It is tried again.
        timed_out: it reached the time limit, and may resume from its checkpoint.
        used: what its process used, where that is known.
    """

    job: Job
    exit_code: int | None
    lost: str | None = None
    timed_out: bool = False
    used: "Used | None" = None


class Used(NamedTuple):
    """What a process used for a job: seconds of a core, and bytes of memory at its peak."""

    seconds: float
    memory: int


Event = Started | Ended


class Place(ABC):
    """Computes jobs. The engine calls it from one thread, and never submits more jobs than it has room for.

    Args:
        target: a function that a fresh process can import.
    """

    at_once: int  # jobs that run at a time, as far as known, for the estimate
    threads: int  # CPU threads of each run
    beside = ""  # what takes time, too, and has no estimate

    def __init__(self, target: Callable[[Any], Any]):
        self.target = target
        self.said: list[str] = []  # lines for the screen, taken by the engine
        self._started: list[Event] = []  # since the last poll

    @property
    @abstractmethod
    def room(self) -> int:
        """Number of jobs that it can take now."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        """Start or queue these jobs. Returns the jobs that it does not take now."""

    def poll(self, seconds: float) -> list[Event]:
        """The new events. Waits up to so many seconds for one."""
        started, self._started = self._started, []
        return started or self._wait(seconds)

    @abstractmethod
    def _wait(self, seconds: float) -> list[Event]:
        """The new events of jobs that have started. Waits up to so many seconds for one."""

    @abstractmethod
    def stop(self, *, force: bool) -> None:
        """Ask all jobs to save and end, or kill them. `poll` reports their ends."""

    def adopt(self, jobs: Sequence[Job]) -> list[Job]:
        """Adopt the jobs among these that an earlier launch started here and that still run or wait. Returns them."""
        return []

    def close(self) -> None:
        """Ask remaining jobs to stop, after the last event or after an error in the consumer."""
        self.stop(force=False)

    @abstractmethod
    def __str__(self) -> str:
        """How runs are computed, for the plan: `2 at a time, 1 thread each`."""


def checkpoints(folders: Iterable[Path]) -> list[float]:
    """The times at which the checkpoints of runs were written. They show whether an interrupted try made progress."""
    paths = [folder / "checkpoints" / "last.ckpt" for folder in folders]
    return [path.stat().st_mtime for path in paths if path.exists()]
