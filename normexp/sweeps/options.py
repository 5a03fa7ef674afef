"""Where and how many runs are computed: options of `train -m`, `verify` and `compare`, as flags, `--place slurm`."""

import json
import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from normexp.format import UNPRINTABLE


class Options(BaseModel):
    """Where and how runs are computed. None of these changes a result.

    Attributes:
        place: `here`, processes of this machine; `slurm`, jobs of a Slurm cluster; `local`, such jobs tried on this
            machine; `ray`, a running Ray cluster.
        workers: runs at a time; default: one per core or GPU. 0 runs them one by one in this process, for a debugger.
            On a cluster, at most so many jobs of this launch run or wait.
        runs_per_gpu: number of runs of this machine that share a GPU. Small runs leave most of it idle.
        gpus: GPUs of each run on a cluster; on Ray, 0.25 lets four share one.
        time_limit: of a job of Slurm, `02:00:00`. Then a run saves a checkpoint, and its job is queued again.
        slurm: more options of sbatch, each as `--slurm account=mine`.
        plan: show the plan with an estimate of its time, and start nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    place: Literal["here", "slurm", "local", "ray"] = "here"
    workers: Annotated[int, Field(ge=0)] | None = None
    runs_per_gpu: Annotated[int, Field(ge=1)] = 1
    gpus: Annotated[float, Field(ge=0)] | None = None
    time_limit: Annotated[timedelta | None, Field(strict=False)] = None
    slurm: dict[str, Any] = {}
    plan: bool = False

    @field_validator("slurm")
    @classmethod
    def _of_sbatch(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name, value in given.items():  # sbatch would read a second line as another option
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or UNPRINTABLE.search(str(value)):
                raise ValueError(f"{name}={value!r}: write an option of sbatch, account=mine")
        return {name: _value(value) for name, value in given.items()}

    @model_validator(mode="after")
    def _fits_its_place(self) -> "Options":
        if self.place != "here" and self.workers == 0:
            raise ValueError("workers=0: runs inside this process; leave place out")
        if self.gpus is not None and self.place == "here":
            raise ValueError(f"gpus={self.gpus:g}: is for clusters; runs_per_gpu lets runs share one here")
        return self


def _value(given: Any) -> Any:
    """The words of a command are text, in which `exclusive=true` is a switch, and a time such as 02:00:00 stays one."""
    try:
        return json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return given


class SweepOptions(Options):
    """Those of `train -m`, which Hydra reads as values."""

    model_config = ConfigDict(strict=True)

    metric: str = "test/accuracy"  # by which the last sentences compare
    better: Literal["higher", "lower"] | None = None

    @model_validator(mode="after")
    def _has_a_way(self) -> "SweepOptions":
        if "metric" in self.model_fields_set:
            from normexp.runs.metrics import higher_is_better  # loads numpy

            higher_is_better(self.metric, self.better)
        return self
