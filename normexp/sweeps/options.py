"""Where and how many runs are computed: options of `train -m`, `verify` and others, also as flags, `--place slurm`."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from normexp.config.errors import checked
from normexp.format import UNPRINTABLE

if TYPE_CHECKING:
    from normexp.config.run_spec import RunSpec  # loads torch

TIMES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
SIZES = {"mb": 1e6, "gb": 1e9, "tb": 1e12}
CLUSTERS = ("slurm", "local", "debug", "ray")


def measured(units: dict[str, float], examples: str) -> BeforeValidator:
    """Reads a number with a unit, `2h`."""

    def read(value: Any) -> Any:
        if value is None or isinstance(value, float):
            return value
        match = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({'|'.join(units)})", str(value), re.IGNORECASE)
        if not match or not float(match[1]):
            raise ValueError(f"write {examples}")
        return float(match[1]) * units[match[2].lower()]

    return BeforeValidator(read)


class Options(BaseModel):
    """Where and how runs are computed. Only `threads` can change a result, by rounding.

    Attributes:
        place: `here`, processes of this machine; `slurm`, jobs of a Slurm cluster; `local` and `debug`, submitit's
            executors that try such jobs on this machine and in this process; `ray`, a running Ray cluster.
        workers: runs at a time. None takes one per core or GPU. 0 runs them one by one in this process, for a debugger.
            On a cluster, at most so many jobs of this launch run or wait.
        threads: CPU threads of each run that sets none itself; 1 by default, whatever `workers` is.
        runs_per_gpu: number of runs of this machine that share a GPU. Small runs leave most of it idle.
        gpus: GPUs of each run on a cluster; on Ray, 0.25 lets four share one.
        memory: bytes of each run, written `4GB`.
        time_limit: seconds of a job of Slurm, written `30min`, `2h`. Then a run saves a checkpoint, and its job is
            queued again.
        address: of the Ray cluster, `host:port`; by default RAY_ADDRESS, or this machine.
        slurm: more options of sbatch, `{partition: gpu, account: mine}`.
        plan: show the plan with an estimate of its time, and start nothing.
        skip_invalid: leave cells out that cannot run, and name them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    place: Literal["here", "slurm", "local", "debug", "ray"] = "here"
    workers: Annotated[int, Field(ge=0)] | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    runs_per_gpu: Annotated[int, Field(ge=1)] = 1
    gpus: Annotated[float, Field(ge=0)] | None = None
    memory: Annotated[float | None, measured(SIZES, "500MB, 4GB")] = None
    time_limit: Annotated[float | None, measured(TIMES, "30min, 2h, 1d")] = None
    address: str | None = None
    slurm: dict[str, Any] = {}
    plan: bool = False
    skip_invalid: bool = False

    @model_validator(mode="after")
    def _fits_its_place(self) -> "Options":
        if self.place != "here" and self.workers == 0:
            raise ValueError("workers=0: runs inside this process; leave place out")
        if self.gpus is not None and self.place not in CLUSTERS:
            raise ValueError(f"gpus={self.gpus:g}: is for clusters; runs_per_gpu lets runs share one here")
        if self.time_limit is not None and self.place in ("here", "ray"):
            raise ValueError(f"time_limit={self.time_limit:g}: is for jobs of Slurm; leave it out")
        for name, value in self.slurm.items():  # sbatch would read a second line as another option
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or UNPRINTABLE.search(str(value)):
                raise ValueError(f"slurm={name}={value!r}: write an option of sbatch, account=mine")
        return self


def threads_of(spec: "RunSpec", options: Options) -> int:
    """CPU threads of a run. They decide the last digits of its numbers, so they do not depend on the number of runs at
    a time or of cores."""
    return spec.config["threads"] or options.threads or 1


FLAGS = {f"--{name.replace('_', '-')}": name for name in Options.model_fields}
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
        if not equals:
            value = "true" if name in SWITCHES else next(waiting, "")
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
        value = text if name in TEXTS else yaml.safe_load(text)
        head, _, key = name.partition(".")
        if key:
            values.setdefault(head, {})[key] = value
        else:
            values[name] = value
    return as_options(values, "--")


def as_options(values: dict[str, Any], prefix: str) -> Options:
    """Checked options. Raises ValueError with one line, which names the option with a prefix."""
    try:
        return checked(Options, values)
    except ValueError as error:
        name, equals, rest = str(error).partition("=")
        shown = name.replace("_", "-") if prefix == "--" else name
        raise ValueError(f"{prefix}{shown}{equals}{rest}") from None
