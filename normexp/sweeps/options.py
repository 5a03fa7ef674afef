"""Where and how many runs are computed: options of `train -m`, `verify` and others, also as flags, `--place slurm`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from normexp.config.run_spec import RunSpec  # loads torch

PLACES = ("here", "slurm", "local", "debug", "ray")
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
SIZES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # sbatch would read a second line as another option


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where and how runs are computed. Only `threads` can change a result, by rounding.

    Args:
        place: `here`, processes of this machine; `slurm`, jobs of a Slurm cluster; `local` and `debug`, submitit's
            executors that try such jobs on this machine and in this process; `ray`, a running Ray cluster.
        workers: runs at a time. None takes one per core or GPU. 0 runs them one by one in this process, for a debugger.
            On a cluster, at most so many jobs of this launch run or wait.
        threads: CPU threads of each run that sets none itself; 1 by default, whatever `workers` is.
        runs_per_gpu: number of runs of this machine that share a GPU. Small runs leave most of it idle.
        gpus: GPUs of each run on a cluster; on Ray, 0.25 lets four share one.
        memory: of each run, `4GB`.
        time_limit: of a job of Slurm, `30min`, `2h`. Then a run saves a checkpoint, and its job is queued again.
        address: of the Ray cluster, `host:port`; by default RAY_ADDRESS, or this machine.
        slurm: more options of sbatch, `{partition: gpu, account: mine}`.
        plan: show the plan with an estimate of its time, and start nothing.
        skip_invalid: leave cells out that cannot run, and name them.
    """

    place: str = "here"
    workers: int | None = None
    threads: int | None = None
    runs_per_gpu: int = 1
    gpus: float | None = None
    memory: str | None = None
    time_limit: str | None = None
    address: str | None = None
    slurm: Mapping[str, Any] = field(default_factory=dict)
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
        if self.place != "here" and self.workers == 0:
            raise ValueError(f"{prefix}workers=0: runs inside this process; leave place out")
        self.time_limit_in(prefix)
        self.memory_in(prefix)
        for name, places, remedy in (
            (
                "gpus",
                ("slurm", "local", "debug", "ray"),
                "is for clusters; runs_per_gpu lets runs share one here",
            ),
            ("time_limit", ("slurm", "local", "debug"), "is for jobs of Slurm; leave it out"),
        ):
            if getattr(self, name) is not None and self.place not in places:
                raise ValueError(f"{prefix}{name}={getattr(self, name)}: {remedy}")
        for name, value in self.slurm.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", str(name)) or CONTROL.search(str(value)):
                raise ValueError(f"{prefix}slurm={name}={value!r}: write an option of sbatch, account=mine")
        return self

    def time_limit_in(self, prefix: str = "") -> float | None:
        """The time limit in seconds."""
        return _measure(f"{prefix}time_limit", self.time_limit, UNITS, "30min, 2h, 1d")

    def memory_in(self, prefix: str = "") -> float | None:
        """The memory in bytes."""
        return _measure(f"{prefix}memory", self.memory, SIZES, "500MB, 4GB")


def threads_of(spec: "RunSpec", options: Options) -> int:
    """CPU threads of a run. They decide the last digits of its numbers, so they do not depend on the number of runs at
    a time or of cores."""
    return spec.config["threads"] or options.threads or 1


def _measure(name: str, value: Any, units: Mapping[str, int], examples: str) -> float | None:
    if value is None:
        return None
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({'|'.join(units)})", str(value), re.IGNORECASE)
    if not match or not float(match[1]):
        raise ValueError(f"{name}={value}: write {examples}")
    return float(match[1]) * {unit.lower(): size for unit, size in units.items()}[match[2].lower()]


FLAGS = {f"--{option.name.replace('_', '-')}": option.name for option in fields(Options)}
SWITCHES = ("plan", "skip_invalid")
TEXTS = ("memory", "time_limit", "address", "place")  # the others are read as yaml


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
    values: dict[str, Any] = {}
    for name, text in given:
        if CONTROL.search(text):
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
