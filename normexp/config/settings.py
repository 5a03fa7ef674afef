"""The table of all settings of a configuration: the values that each may have, and what it decides.

`configs/train.yaml` holds the defaults and says in one sentence what each setting does. The options of a group
(`model.width`) are checked against the signature of its `_target_`. They stand here only if they are no part of a run's
identity. Imports neither torch nor Hydra.
"""

from dataclasses import dataclass
from typing import Any, Literal

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
        recorded: it changes what a run records, but not the training.
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
    _not_identity("log_every_n_steps", int, least=1, most=MOST_STEPS, recorded=True),
    _not_identity("accuracies", list[float], recorded=True),
    _not_identity("logger", str | list[str], recorded=True),
    _not_identity("replicas", int | dict),
    _not_identity("channels_last", bool),
    _not_identity("compile", bool | Literal["reduce-overhead"]),
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
    parts = column.split(".")
    return not any(".".join(parts[:length]) in NOT_SHOWN for length in range(1, len(parts) + 1))
