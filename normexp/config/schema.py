"""The schema of a configuration: the keys at its root with types and limits, and the options of each node's class.

`configs/train.yaml` holds the defaults and says in one sentence what each key does. `Root.model_json_schema()` serves
editors. Imports neither torch nor Hydra.
"""

import contextlib
import importlib.util
import inspect
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from normexp.format import installs

MOST_STEPS = 10**12  # a step of a microsecond would take twelve days
MOST_THREADS = 1024  # more than any machine has cores; with 100,000 a process dies
LARGEST_SEED = 2**32 - 1  # numpy and Lightning's seed_everything take no larger one

STRICT = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, protected_namespaces=())
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
Name = Annotated[str, Field(min_length=1)]
Node = dict[str, Any]  # checked against the signature of its `_target_`
Logger = Literal["tensorboard", "csv", "wandb", "mlflow"]


class Root(BaseModel):
    """The keys at the root."""

    model_config = STRICT
    seed: int = Field(ge=0, le=LARGEST_SEED)
    batch_size: int = Field(ge=1)
    lr: float = Field(ge=0)
    max_epochs: int = Field(ge=0, le=MOST_STEPS)
    max_steps: Annotated[int, Field(ge=0, le=MOST_STEPS)] | None = None
    eps: float = Field(ge=0)
    val_every_n_steps: Steps | None = None
    early_stopping: Annotated[int, Field(ge=1)] | None = None
    label_smoothing: float = Field(0.0, ge=0, le=1)
    flush_denormal: bool = True
    log_every_n_steps: Steps
    accuracies: list[float]
    logger: Logger | list[Logger]
    channels_last: bool
    compile: bool | Literal["reduce-overhead"]
    name: Name
    outputs: Name
    run_dir: Name | None
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] | None
    allow_targets: list[str]
    recipe: str
    model: Node
    norm: Node
    data: Node
    optimizer: Node
    schedule: Node
    trainer: Node
    monitor: Node

    @field_validator("logger")
    @classmethod
    def _installed(cls, logger: str | list[str]) -> str | list[str]:
        for name in {"wandb", "mlflow"} & set([logger] if isinstance(logger, str) else logger):
            if importlib.util.find_spec(name) is None:
                raise ValueError(f"{name} is not installed; {installs(name)}")
        return logger

    @field_validator("accuracies")
    @classmethod
    def _fractions(cls, accuracies: list[float]) -> list[float]:
        if not all(0 < accuracy <= 1 for accuracy in accuracies):
            raise ValueError("must be fractions above 0, at most 1, not percents")
        return accuracies

    @field_validator("name")
    @classmethod
    def _below_outputs(cls, name: str) -> str:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError("a study lies below outputs; set outputs for another place")
        return name


GROUPS = ("model", "norm", "data", "optimizer", "schedule", "trainer", "monitor")
# They change what a run records, its speed too, but not the training.
RECORDED = ("log_every_n_steps", "accuracies", "logger", "channels_last", "compile", "monitor")
# Places, hardware and monitors. `recipe`, `preset`, `experiment` and `debug` set other keys, and those count.
NOT_IDENTITY = frozenset({
    *RECORDED, "name", "outputs", "run_dir", "fast_dev_run", "threads", "allow_targets", "replicas", "recipe",
    "preset", "experiment", "debug", "data.root", "data.path", "data.cache", "data.eval_batch_size",
    "trainer.accelerator", "trainer.devices", "trainer.strategy", "trainer.deterministic",
    "trainer.enable_progress_bar",
})  # fmt: skip


@cache
def options_of(target: type, given: tuple[str, ...] = (), partial: bool = False) -> type[BaseModel] | None:
    """The model of a class's options, by its signature; None for a class written in C. `given` are the arguments that
    normexp passes itself; a `partial` class is called later, so no option is required."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return None
    hints: dict[str, Any] = {}
    with contextlib.suppress(NameError, TypeError, AttributeError):
        # Also of an inherited one.
        hints = get_type_hints(inspect.getattr_static(target, "__init__"), include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name in given or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty and not partial
        # An alias, since names such as `copy` are those of pydantic's own methods.
        field = Field(... if required else None, alias=parameter.name)
        fields[f"option_{parameter.name}"] = (_yaml_kind(hints.get(parameter.name, Any)), field)
    more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    config = ConfigDict(**{**STRICT, "extra": "allow" if more else "forbid"})
    return create_model(target.__name__, __config__=config, **fields)


PLAIN = (int, float, bool, str, type(None), dict)


def _yaml_kind(kind: Any) -> Any:
    """An annotation as far as yaml can express its values: `float | Tensor` is a number, `tuple[int, ...]` a list."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in PLAIN or origin is Literal:
        return kind
    if origin is Annotated:  # with its limits
        return Annotated[(_yaml_kind(inner[0]), *inner[1:])]
    if origin in (Union, types.UnionType):
        kinds = [member for member in map(_yaml_kind, inner) if member is not Any]
        only_null = set(kinds) <= {type(None)}
        return Any if only_null else Union[tuple(kinds)]  # noqa: UP007
    if isinstance(origin, type) and issubclass(origin, Sequence):
        items = tuple(_yaml_kind(item) for item in inner if item is not Ellipsis)
        return list[Union[items]] if items else list  # type: ignore[valid-type]  # noqa: UP007
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict
    return Any
