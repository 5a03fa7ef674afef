"""The table of all settings of a configuration: the values that each may have, and what it decides.

`configs/train.yaml` holds the defaults and says in one sentence what each setting does. The options of a group
(`model.width`) are checked against the signature of its `_target_`. They stand here only if they are no part of a run's
identity. Settings with several forms (`early_stopping`, `logger`) are read here too, and here stands which values fit
a type. Imports neither torch nor Hydra.
"""

import difflib
import importlib.util
import math
import os
import shlex
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from normexp.format import UNPRINTABLE

LONGEST, LARGEST, DEEPEST = 100_000, 2**63 - 1, 20  # characters, whole numbers, nested values
MOST_STEPS = 10**12  # a step of a microsecond would take twelve days
LARGEST_SEED = 2**32 - 1  # numpy and Lightning's seed_everything take no larger one


@dataclass(frozen=True)
class Setting:
    """One key of a configuration.

    Args:
        key: as on the command line; a dot leads to an option of a group.
        kind: its type, as an annotation; None if another place checks it.
        least, most: smallest and largest value.
        group: it is a folder of choices, with a node of options.
        identity: runs with different values are different runs.
        shown: tables show it to tell runs apart.
        recorded: it changes what a run records, its speed too, but not the training.
    """

    key: str
    kind: Any = None
    least: float | None = None
    most: float | None = None
    group: bool = False
    identity: bool = True
    shown: bool = True
    recorded: bool = False


def _not_identity(key: str, kind: Any = None, **more: Any) -> Setting:
    """A setting that is no part of a run's identity: a place, hardware, a monitor."""
    return Setting(key, kind, identity=False, shown=False, **more)


SETTINGS = (
    Setting("seed", int, least=0, most=LARGEST_SEED),
    Setting("batch_size", int, least=1),
    Setting("lr", float, least=0),
    Setting("max_epochs", int, least=0, most=MOST_STEPS),
    Setting("max_steps", int | None, least=0, most=MOST_STEPS),
    Setting("eps", float, least=0),
    Setting("val_every_n_steps", int | None, least=1, most=MOST_STEPS),
    Setting("early_stopping", int | dict | None),
    Setting("label_smoothing", float, least=0, most=1),
    Setting("flush_denormal", bool),
    _not_identity("log_every_n_steps", int, least=1, most=MOST_STEPS, recorded=True),
    _not_identity("accuracies", list[float], recorded=True),
    _not_identity("logger", str | list[str], recorded=True),
    _not_identity("channels_last", bool, recorded=True),
    _not_identity("compile", bool | Literal["reduce-overhead"], recorded=True),
    _not_identity("name", str),
    _not_identity("outputs", str),
    _not_identity("run_dir", str | None),
    _not_identity("fast_dev_run", bool),
    _not_identity("threads", int | None, least=1),
    _not_identity("allow_targets", list[str]),
    Setting("model", group=True),
    Setting("norm", group=True),
    Setting("data", group=True),
    _not_identity("data.root"),
    _not_identity("data.path"),
    _not_identity("data.cache"),
    _not_identity("data.eval_batch_size"),
    Setting("optimizer", group=True),
    Setting("schedule", group=True),
    Setting("trainer", group=True, shown=False),
    _not_identity("trainer.accelerator"),
    _not_identity("trainer.devices"),
    _not_identity("trainer.strategy"),
    _not_identity("trainer.deterministic"),
    _not_identity("trainer.enable_progress_bar"),
    _not_identity("monitor", group=True, recorded=True),
    _not_identity("recipe", str),  # it sets other keys, and those count
    _not_identity("replicas"),  # of runs of earlier versions
    _not_identity("preset"),  # it sets options of the model and the norm, and those count
    _not_identity("experiment"),  # a preset sets other keys, and those count
    _not_identity("debug"),  # the same
)
ROOT = tuple(setting for setting in SETTINGS if setting.kind is not None)
GROUPS = tuple(setting.key for setting in SETTINGS if setting.group)
RECORDED = tuple(setting.key for setting in SETTINGS if setting.recorded)
NOT_IDENTITY = frozenset(setting.key for setting in SETTINGS if not setting.identity)
NOT_SHOWN = frozenset(setting.key for setting in SETTINGS if not setting.shown)


def shown(column: str) -> bool:
    """Whether tables show a key such as `norm.eps`. They hide the options of a group that is not shown."""
    return not any(f"{column}.".startswith(f"{key}.") for key in NOT_SHOWN)


def value_at(config: Any, key: str, absent: Any = None) -> Any:
    """The value of a key such as `norm.eps` in a configuration."""
    for part in key.split("."):
        config = config.get(part, absent) if isinstance(config, dict) else absent
    return config


Metric = Literal["accuracy", "loss"]
STOP = (
    Setting("early_stopping.patience", int, least=1),
    Setting("early_stopping.metric", Metric),
    Setting("early_stopping.min_delta", float, least=0),
)


@dataclass(frozen=True)
class EarlyStop:
    """Args:
    patience: end a run after this many validations in a row without progress.
    metric: of validation.
    min_delta: a smaller change is no progress.
    """

    patience: int
    metric: Metric = "accuracy"
    min_delta: float = 0.0


def early_stop(config: dict[str, Any]) -> EarlyStop | None:
    """The rule in `early_stopping`, which is null, a number of validations, or {patience: 5, metric: loss, min_delta:
    0.001}. Raises ValueError with one line for anything else."""
    asked = config.get("early_stopping")
    if asked is None:
        return None
    asked = asked if isinstance(asked, dict) else {"patience": asked}
    check_keys(asked, ("patience", "metric", "min_delta"), "early_stopping.")
    rule = EarlyStop(**{"patience": None, **asked})
    for setting in STOP:
        check_setting(setting, getattr(rule, setting.key.partition(".")[2]))
    return rule


def check_keys(node: dict[str, Any], known: Sequence[str], path: str) -> None:
    """Raise a ValueError of one line for the first unknown key of a node."""
    for key in node:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {path}{near[0]}?" if near else f"the keys are: {', '.join(known)}"
            raise ValueError(f"{path}{key}: no such key; {hint}")


def check_setting(setting: Setting, value: Any) -> None:
    """Check a value against its row of a table. Raises ValueError with one line."""
    check_type(setting.key, value, setting.kind)
    if value is not None and setting.least is not None and not value >= setting.least:  # `not >=` catches nan
        raise ValueError(f"{setting.key}={value}: must be at least {setting.least}")
    if value is not None and setting.most is not None and value > setting.most:
        raise ValueError(f"{setting.key}={value}: must be at most {setting.most}")


def check_type(path: str, value: Any, kind: Any) -> None:
    """Raise ValueError with one line for a value that does not fit its annotation."""
    if not fits_type(value, kind):
        raise ValueError(f"{path}={value!r:.80}: {describe(kind)}")


ROLES = ("input_norms", "output_norms", "qk", "final", "matrices")


def decay_of(optimizer: dict[str, Any]) -> str | dict[str, bool]:
    """What weight decay is for, from an optimizer's node: `matrices`, `all`, or role -> whether it decays, where a role
    that is not named has its default: matrices do, norms do not. Raises ValueError with one line for anything else."""
    asked = optimizer.get("decay", "matrices")
    if asked in ("matrices", "all"):
        return asked
    if not isinstance(asked, dict) or not all(isinstance(value, bool) for value in asked.values()):
        raise ValueError(f"optimizer.decay={asked}: use matrices, all or keys such as {{input_norms: true}}")
    for role in asked:
        if role not in ROLES:
            raise ValueError(f"optimizer.decay.{role}: no such parameters; use some of {', '.join(ROLES)}")
    return {role: asked.get(role, role == "matrices") for role in ROLES}


def class_options(optimizer: dict[str, Any]) -> dict[str, Any]:
    """An optimizer's node without what is for normexp and not for its class."""
    return {key: value for key, value in optimizer.items() if key != "decay"}


LOGGERS, INSTALLED = ("tensorboard", "csv", "wandb", "mlflow"), ("wandb", "mlflow")  # the latter by the user


def names_of(logger: str | Sequence[str]) -> list[str]:
    """The names in `logger=wandb` or `logger=[tensorboard,wandb]`."""
    return [logger] if isinstance(logger, str) else list(logger)


def check_loggers(logger: str | Sequence[str]) -> None:
    """Raise ValueError with one line for an unknown name, a name that stands twice, or a package that is absent."""
    names = names_of(logger)
    for name in names:
        if name not in LOGGERS:
            raise ValueError(f"logger={name}: no such logger; choose from {', '.join(LOGGERS)}")
        if name in INSTALLED and importlib.util.find_spec(name) is None:
            raise ValueError(f"logger={name}: {name} is not installed; pip install normexp[{name}]")
    if len(set(names)) < len(names):
        raise ValueError(f"logger=[{','.join(names)}]: names a logger twice; name each once")


def mlflow_store(outputs: str | Path) -> str:
    """Where MLflow keeps its runs: MLFLOW_TRACKING_URI, or the file `<outputs>/mlflow.db`."""
    own = Path(outputs).absolute() / "mlflow.db"
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{own.as_posix()}"


def writes_events(config: dict[str, Any]) -> bool:
    """Whether a run writes TensorBoard's events."""
    given = config.get("logger", "tensorboard")  # runs from before there was the key
    return "tensorboard" in names_of(given)


def how_to_look(config: dict[str, Any], folder: str | Path) -> list[str]:
    """The lines `look: ...` on the screen. wandb prints its own address."""
    commands = [f"tensorboard --logdir {shlex.quote(str(folder))}"] if writes_events(config) else []
    if "mlflow" in names_of(config.get("logger", ())):
        commands.append(f"mlflow ui --backend-store-uri {shlex.quote(mlflow_store(config['outputs']))}")
    return [f"look:   {command}" for command in commands]


def check_plain(path: str, value: Any, depth: int = 0) -> None:
    """Raise ValueError with one line for a value that no setting and no result can have: a key that is no text, a
    number that is infinite or NaN or needs more than 64 bits, text that no line can show, nesting without end."""
    if depth > DEEPEST:
        raise ValueError(f"{path[:60]}: nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{path}.{key}: a key must be text; quote it")
            check_plain(path, key)
            check_plain(f"{path}.{key}", item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_plain(path, item, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path}={value}: must be finite")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"{path}: a number of {len(str(value))} digits; must be at most {LARGEST}")
    elif isinstance(value, str) and (len(value) > LONGEST or UNPRINTABLE.search(value)):
        more = f", or is longer than {LONGEST:,}" if len(value) > LONGEST else ""
        raise ValueError(f"{path}={value!r:.60}: has a character that no line can show{more}; leave it out")


KINDS = {
    float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "null", dict: "a mapping",
}  # fmt: skip
EXAMPLES = {float: "0.5", int: "1", str: "name"}


def options_of(kind: Any) -> list[Any]:
    """The types and values, one of which fits an annotation: those of `X | Y`, `Optional[X]` and Literal."""
    if isinstance(kind, type):
        return [kind]
    if get_origin(kind) in (Union, types.UnionType):
        return [option for own in get_args(kind) for option in options_of(own)]
    return list(get_args(kind)) if get_origin(kind) is Literal else [kind]


def _is_value(option: Any) -> bool:
    return isinstance(option, (bool, int, str))


def fits_type(value: Any, kind: Any) -> bool:
    """Whether a yaml value fits the annotation `kind`. A class that yaml cannot express accepts only its instances; an
    unknown annotation accepts everything."""
    return any(_fits(value, option) for option in options_of(kind))


def _fits(value: Any, option: Any) -> bool:
    if type(value) is option:  # most values, of 100,000 runs too
        return True
    origin = get_origin(option)
    if _is_value(option):  # True == 1 in Python, but not in a configuration
        return value == option and type(value) is type(option)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        kinds = [own for own in get_args(option) if own is not Ellipsis]
        return is_list and all(any(fits_type(item, own) for own in kinds) for item in value)
    if option in (int, float):
        return isinstance(value, (int, option)) and not isinstance(value, bool)
    if option is None:
        return value is None
    return not isinstance(option, type) or option is object or isinstance(value, option)


def describe(kind: Any) -> str:
    """How a message describes the values that fit: `must be a whole number or null`."""
    options = options_of(kind)
    names = [str(option) if _is_value(option) else _name(option) for option in options]
    return (
        f"choose from {', '.join(names)}" if any(map(_is_value, options)) else f"must be {' or '.join(names)}"
    )


def _name(kind: Any) -> str:
    if get_origin(kind) is not None:
        return f"a list such as [{', '.join(EXAMPLES.get(own, '...') for own in get_args(kind))}]"
    return KINDS.get(kind, getattr(kind, "__name__", str(kind)))
