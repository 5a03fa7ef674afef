"""Where and how many runs are computed: options of `train -m`, `verify` and others, also as flags, `--place slurm`."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from normexp.config.errors import checked
from normexp.format import UNPRINTABLE


class Options(BaseModel):
    """Where and how runs are computed. None of these changes a result.

    Attributes:
        place: `here`, processes of this machine; `slurm`, jobs of a Slurm cluster; `local`, such jobs tried on this
            machine; `ray`, a running Ray cluster.
        workers: runs at a time. None takes one per core or GPU. 0 runs them one by one in this process, for a debugger.
            On a cluster, at most so many jobs of this launch run or wait.
        runs_per_gpu: number of runs of this machine that share a GPU. Small runs leave most of it idle.
        gpus: GPUs of each run on a cluster; on Ray, 0.25 lets four share one.
        time_limit: of a job of Slurm, `02:00:00`. Then a run saves a checkpoint, and its job is queued again.
        slurm: more options of sbatch, `{partition: gpu, account: mine, mem: 8GB}`.
        plan: show the plan with an estimate of its time, and start nothing.
        metric, better: of `train -m` alone: by what its last sentences compare, and which way of it is better.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    place: Literal["here", "slurm", "local", "ray"] = "here"
    workers: Annotated[int, Field(ge=0)] | None = None
    runs_per_gpu: Annotated[int, Field(ge=1)] = 1
    gpus: Annotated[float, Field(ge=0)] | None = None
    time_limit: Annotated[timedelta | None, Field(strict=False)] = None
    slurm: dict[str, Any] = {}
    plan: bool = False
    metric: str = "test/accuracy"
    better: Literal["higher", "lower"] | None = None

    @model_validator(mode="after")
    def _fits_its_place(self) -> "Options":
        if self.place != "here" and self.workers == 0:
            raise ValueError("workers=0: runs inside this process; leave place out")
        if self.gpus is not None and self.place == "here":
            raise ValueError(f"gpus={self.gpus:g}: is for clusters; runs_per_gpu lets runs share one here")
        if "metric" in self.model_fields_set:
            from normexp.runs.metrics import higher_is_better  # loads numpy

            higher_is_better(self.metric, self.better)
        for name, value in self.slurm.items():  # sbatch would read a second line as another option
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or UNPRINTABLE.search(str(value)):
                raise ValueError(f"slurm={name}={value!r}: write an option of sbatch, account=mine")
        return self


FLAGS = {f"--{name.replace('_', '-')}": name for name in Options.model_fields}
OF_COMMANDS = {flag: name for flag, name in FLAGS.items() if name not in ("metric", "better")}
TEXTS = ("time_limit", "place")  # the others are read as yaml


def take_flags(
    arguments: Sequence[str], known: Mapping[str, str] = FLAGS
) -> tuple[list[str], list[tuple[str, str]]]:
    """(the other arguments, name and value of each option that is given as a flag). `--slurm partition=gpu` gives
    `slurm.partition`. Raises ValueError for a flag without a value."""
    rest: list[str] = []
    flags: list[tuple[str, str]] = []
    waiting = iter(arguments)
    for argument in waiting:
        flag, equals, value = argument.partition("=")
        name = known.get(flag)
        if name is None:
            rest.append(argument)
            continue
        if not equals:
            value = "true" if name == "plan" else next(waiting, "")
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
        name, _, key = name.partition(".")
        values[name] = {**values.get(name, {}), key: value} if key else value
    return checked(Options, values)
