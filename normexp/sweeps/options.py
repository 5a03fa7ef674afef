"""Options for many runs, shared by all commands: the place, the number at a time, the hardware.

`train.py -m`, `normexp verify` and `normexp evidence` take them as flags: `--place slurm --time-limit 2h --plan`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

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
        _measure(f"{prefix}time_limit", self.time_limit, UNITS, "30min, 2h, 1d")
        _measure(f"{prefix}memory", self.memory, SIZES, "500MB, 4GB")
        return self

    def time_limit_in(self) -> float | None:
        """The time limit in seconds."""
        return _measure("time_limit", self.time_limit, UNITS, "30min, 2h, 1d")

    def memory_in(self) -> float | None:
        """The memory in bytes."""
        return _measure("memory", self.memory, SIZES, "500MB, 4GB")


def _measure(name: str, value: Any, units: Mapping[str, int], examples: str) -> float | None:
    if value is None:
        return None
    found = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({'|'.join(units)})", str(value), re.IGNORECASE)
    if not found or not float(found[1]):
        raise ValueError(f"{name}={value}: write {examples}")
    return float(found[1]) * {unit.lower(): size for unit, size in units.items()}[found[2].lower()]


FLAGS = {f"--{one.name.replace('_', '-')}": one.name for one in fields(Options)}
SWITCHES = ("plan", "trust_network", "skip_invalid")


def take_flags(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """(the other arguments, name and value of each option that is given as a flag). `--slurm partition=gpu` gives
    `slurm.partition`. Raises ValueError for a flag without a value."""
    rest: list[str] = []
    found: list[tuple[str, str]] = []
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
        found.append((name, value))
    return rest, found


def options_of(given: Sequence[tuple[str, str]]) -> Options:
    """The options of flags. Raises ValueError with one line."""
    import yaml

    values: dict[str, Any] = {}
    for name, text in given:
        if re.search(r"[\x00-\x1f\x7f]", text):  # sbatch would read a second line as another option
            raise ValueError(f"--{name.replace('_', '-').replace('.', '=', 1)}={text!r}: must be one line")
        value = (
            text if name in ("memory", "time_limit", "address", "place", "rates") else yaml.safe_load(text)
        )
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
